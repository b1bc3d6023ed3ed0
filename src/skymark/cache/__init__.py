"""The cache on this disk: data sets and venvs, which can be made again."""
