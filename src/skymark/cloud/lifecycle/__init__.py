"""The lifecycle of a run on a rented machine: price, hire, run, bring home, verify, end, bill."""
