"""Run on disk: layout, writer and reader."""
