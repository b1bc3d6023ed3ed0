"""From records to tables, pages and comparisons."""
