"""Marks of a simulated machine: its container's name, and leave to lack an accelerator."""

from __future__ import annotations

REHEARSAL = "skymark-rehearsal"
"""The kind of container that a simulated machine says it is, so that every run on one has it."""

REHEARSAL_VARIABLE = "SKYMARK_REHEARSAL"
"""With 1, a simulated machine is not asked for the accelerator it cannot have; a rented one is."""
