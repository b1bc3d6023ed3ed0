"""Consoles and streams for text that others wrote: it is shown, and steers nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TextIO, cast

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from skymark.report.text import plain

COLOURS = re.compile(r"\x1b\[[0-9;]*m")
"""Sequences that set colours (SGR of ECMA-48); they are dropped."""


class PlainConsole(Console):
    """Console that shows text as it is: no markup, and no control character but rich's own."""

    def __init__(self, *, stderr: bool = False, width: int | None = None) -> None:
        super().__init__(stderr=stderr, width=width, markup=False, emoji=False)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render something, with control characters of its text replaced."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(plain(segment.text), segment.style)


class PlainStream:
    """Stream of the output of another machine; lines end where it wanted to overwrite them."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write text without colours and control characters, and return its length."""
        lines = COLOURS.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
        self._stream.write(plain(lines))
        return len(text)

    def flush(self) -> None:
        """Write what is held back."""
        self._stream.flush()

    def isatty(self) -> bool:
        """Return False: whoever asks would send colours."""
        return False


def plain_stream(stream: TextIO) -> TextIO:
    """Return a stream for the output of another machine, written to one of this process's."""
    return cast(TextIO, PlainStream(stream))
