"""The words of the design as frozen types, and the errors. No I/O."""
