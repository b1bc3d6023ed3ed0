"""One module per scenario; each registers one class."""
