"""Instruments: clock, process tree, environment, statistics. Know neither suite nor store."""
