"""The environment of all HTML pages: what is anybody's text is escaped and steers nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skymark.model.errors import SkymarkError
from skymark.report import text

if TYPE_CHECKING:
    from jinja2 import Environment


def page_environment() -> Environment:
    """Return the environment that templates of pages are rendered in.

    Raises:
        SkymarkError: jinja2 is not installed.
    """
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ModuleNotFoundError as error:
        raise SkymarkError("a page needs jinja2; run: pip install 'skymark[report]'") from error
    return Environment(
        loader=PackageLoader("skymark.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=visible,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def visible(value: Any) -> Any:
    """Show what is missing as a dash, and text without control characters."""
    if value is None:
        return text.MISSING
    return text.plain(value) if type(value) is str else value
