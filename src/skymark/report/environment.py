"""The environment of all HTML pages: what is anybody's text is escaped and steers nothing."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from skymark.model.errors import SkymarkError
from skymark.report import text

if TYPE_CHECKING:
    from jinja2 import BytecodeCache, Environment
    from jinja2.bccache import Bucket


def page_environment() -> Environment:
    """Return the environment that templates of a page are rendered in; its filters are its own.

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
        bytecode_cache=_compiled_templates(),
        finalize=visible,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


@cache
def _compiled_templates() -> BytecodeCache:
    """Return the templates that this process has compiled, which takes longer than a page's text.

    They are kept in memory: code from a file would be obeyed whoever wrote it.
    """
    from jinja2 import BytecodeCache

    class InMemory(BytecodeCache):
        def __init__(self) -> None:
            self._code: dict[str, bytes] = {}

        def load_bytecode(self, bucket: Bucket) -> None:
            if (code := self._code.get(bucket.key)) is not None:
                bucket.bytecode_from_string(code)

        def dump_bytecode(self, bucket: Bucket) -> None:
            self._code[bucket.key] = bucket.bytecode_to_string()

    return InMemory()


def visible(value: Any) -> Any:
    """Show what is missing as a dash, and text without control characters."""
    if value is None:
        return text.MISSING
    return text.plain(value) if type(value) is str else value
