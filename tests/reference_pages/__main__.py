"""Write the reference pages; `nox -s reference` runs it."""

from pathlib import Path

from tests.reference_pages import PAGES

for name, page in PAGES.items():
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_text(page(), "utf-8")
