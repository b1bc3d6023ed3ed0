"""Models of the clip suite: open_clip's architectures and weights, and files of one's own."""
