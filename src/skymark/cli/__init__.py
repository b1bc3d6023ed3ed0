"""The command line: the only part that prints or exits. One file per group of commands."""
