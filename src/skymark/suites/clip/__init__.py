"""The clip suite: CLIP models on data sets, decoding and loading once."""
