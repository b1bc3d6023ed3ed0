"""Decoded and resized images, kept as 8-bit integers and shared by the processes of a machine."""
