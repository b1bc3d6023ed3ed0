"""Hook of MkDocs: the pages outside `docs/`, and links to files of the repository."""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": "overview.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
"""Pages by their path in the repository, which the site has under another."""
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?![a-z]+:|#)([^)\s#]+)(#[^)\s]*)?\)")

log = logging.getLogger("mkdocs.plugins.repository_links")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that lie outside `docs/`."""
    for source, target in PAGES.items():
        text = (ROOT / source).read_text("utf-8")
        files.append(File.generated(config, target, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Point links at the pages of the site; a link to another file becomes its text.

    A link to a file that is not there is a warning, which ends a strict build.
    """
    here = page.file.src_uri
    source = next((one for one, target in PAGES.items() if target == here), f"docs/{here}")

    def moved(found: re.Match[str]) -> str:
        picture, text, link, anchor = found.groups()
        path = os.path.normpath(Path(source).parent / link)
        if not (ROOT / path).exists():
            log.warning("%s links to %s, which is not there", source, link)
        target = PAGES.get(path) or (path[5:] if path.startswith("docs/") else None)
        if target is None:
            return text
        relative = os.path.relpath(target, Path(here).parent)
        return f"{picture}[{text}]({relative}{anchor or ''})"

    return LINK.sub(moved, markdown)
