"""Running profiles on rented machines. The only package that imports `sky`."""
