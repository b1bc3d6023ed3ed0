"""Instruments: the timed loop, and the sampler of a process tree. They know no suite."""
