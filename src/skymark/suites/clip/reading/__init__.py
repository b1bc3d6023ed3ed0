"""Data sets on disk: positions of their images, labels and captions."""
