"""The table of cache policies: processes that start at once on the same data, with each policy."""
