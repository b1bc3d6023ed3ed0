"""Decoded and resized images: 8-bit integers in the cache, shared by a machine's processes."""
