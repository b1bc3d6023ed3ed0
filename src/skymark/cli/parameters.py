"""Groups of options in help, and kinds of options, that commands share."""

from __future__ import annotations

from cyclopts import Group, Parameter

WHAT = Group.create_ordered("What to measure")
HOW = Group.create_ordered("How to measure it")
WHERE = Group.create_ordered("Where it runs, and what is shown")

Several = Parameter(consume_multiple=1)
"""An option of several values, which follow it once or repeat it."""
