"""Tables, pages and comparisons of runs, made from the metrics that suites declare."""
