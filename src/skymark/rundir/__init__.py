"""A run on disk: its layout, writer and reader."""
