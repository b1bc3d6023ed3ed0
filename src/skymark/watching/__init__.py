"""Watch what a training loop waits for, in the user's own process.

This package imports the standard library alone and keeps to the syntax of Python 3.9, so that it
works inside any program: `skymark watch -- python train.py` puts it on the program's path, and
`skymark watch --copy DIR` writes it for an older Python.
"""

from __future__ import annotations

from skymark.watching.loop import Watched, watch

__all__ = ["Watched", "watch"]
