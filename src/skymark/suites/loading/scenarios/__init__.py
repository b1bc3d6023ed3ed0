"""One module per family of scenarios; it registers a class for each of them."""
