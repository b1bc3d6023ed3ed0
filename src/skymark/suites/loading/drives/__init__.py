"""How a loader is driven and timed, one module per kind of question."""
