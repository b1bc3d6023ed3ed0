"""Models, and their features of images and texts."""
