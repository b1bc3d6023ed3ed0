"""Rented machines: their price, their lifecycle and a rehearsal of both.

`sky` is the only package that imports SkyPilot.
"""
