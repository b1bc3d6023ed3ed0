"""Servers that the tests of stores talk to, and what goes wrong on the way to them."""
