"""Tests of the clip suite's worker side, with real torch and open_clip.

They run in the clip suite's own venv: ``python -m tests.in_venv clip tests/clip``.
"""
