"""Data sets as they lie on disk: where their images, labels and captions are."""
