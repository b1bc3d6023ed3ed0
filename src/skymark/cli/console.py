"""A console and a stream that show text literally, whatever control characters it has.

Help needs the console, so nothing here loads the models.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TextIO, cast

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

COLOURS = re.compile(r"\x1b\[[0-9;]*m")
"""Sequences that set colours (SGR of ECMA-48); they are dropped."""
OWN = "skymark:"
"""The beginning of this program's own messages."""


class PlainConsole(Console):
    """Console that shows text literally: no markup, and only rich's own control characters."""

    def __init__(self, *, stderr: bool = False, width: int | None = None) -> None:
        super().__init__(stderr=stderr, width=width, markup=False, emoji=False)

    def on_broken_pipe(self) -> None:
        """Raise an error of its own, where rich would end the process with status 1."""
        raise BrokenPipeError

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render something, with control characters of its text replaced."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.replace("\n", "").isprintable():
                yield segment
            else:
                from skymark.report.text import plain

                yield Segment(plain(segment.text), segment.style)


class PlainStream:
    """Stream of the output of another machine, which cannot pass for a message of skymark.

    A carriage return ends the line. A line that begins as a message does gets a bar before it; the
    stream holds the beginning of a line back until it can tell.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._begun = ""
        """Beginning of a line, as long as it may become a message."""
        self._within = False
        """Whether a line was written in part."""

    def write(self, text: str) -> int:
        """Write text without colours and control characters, and return its length."""
        from skymark.report.text import plain

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
        """Write the text that is held back."""
        if self._begun:
            self._stream.write(f"| {self._begun}")
            self._begun, self._within = "", True
        self._stream.flush()

    def isatty(self) -> bool:
        """Return False, so that no program sends colours."""
        return False


def plain_stream(stream: TextIO) -> TextIO:
    """Return a stream that writes another machine's output to a stream of this process."""
    return cast(TextIO, PlainStream(stream))
