"""Domain model: frozen types and errors, without I/O."""
