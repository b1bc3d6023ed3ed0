"""One module per library; each registers one class."""
