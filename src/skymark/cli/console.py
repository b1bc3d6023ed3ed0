"""Consoles and streams for text of other programs, shown without its control characters."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TextIO, cast

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from skymark.report.text import plain

COLOURS = re.compile(r"\x1b\[[0-9;]*m")
"""Sequences that set colours (SGR of ECMA-48); they are dropped."""
OWN = "skymark:"
"""The beginning of this program's own messages."""


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
    """Stream of the output of another machine, which cannot be taken for a message of skymark.

    A line ends where it wanted to be overwritten. A bar stands before one that begins as messages
    do; so much of a line is held back until it is told apart.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._begun = ""
        """Beginning of a line, as long as it may become a message."""
        self._within = False
        """Whether a line was written in part."""

    def write(self, text: str) -> int:
        """Write text without colours and control characters, and return its length."""
        lines = COLOURS.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
        shown = "".join(map(self._shown, plain(lines).splitlines(keepends=True)))
        self._stream.write(shown)
        return len(text)

    def _shown(self, line: str) -> str:
        if not self._within:
            line, self._begun = self._begun + line, ""
            start = line.lstrip().casefold()
            if OWN.startswith(start) and not line.endswith("\n"):
                self._begun = line
                return ""
            if start.startswith(OWN):
                line = f"| {line}"
        self._within = not line.endswith("\n")
        return line

    def flush(self) -> None:
        """Write what is held back."""
        if self._begun:
            self._stream.write(f"| {self._begun}")
            self._begun, self._within = "", True
        self._stream.flush()

    def isatty(self) -> bool:
        """Return False: whoever asks would send colours."""
        return False


def plain_stream(stream: TextIO) -> TextIO:
    """Return a stream for the output of another machine, written to one of this process's."""
    return cast(TextIO, PlainStream(stream))
