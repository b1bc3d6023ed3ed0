"""Formats of encoded images that are decoded, whatever a file is called.

Pillow would also take dozens of others that nobody needs here, and start Ghostscript for
PostScript.
"""

from __future__ import annotations

IMAGE_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
