"""Data sets of the clip suite: public ones by name, and directories of one's own."""
