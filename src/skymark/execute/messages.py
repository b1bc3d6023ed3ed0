"""The messages between engine and worker: one JSON object a line, typed on both sides."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from skymark.execute.seen_devices import SeenDevices
from skymark.model.base import Frozen
from skymark.model.effort import Effort
from skymark.model.machine import Platform
from skymark.model.record import Cell, Resources, RoundResult, Verification
from skymark.suite.contract import ObservedRound, SeenBy

# From the engine to the worker


OWN_OUTPUT = Path("/dev/stdout")
"""Log in a request. Workers of earlier revisions open it; it is their standard output."""


class Begin(Frozen):
    """Make the runner of a group, which one cell identifies."""

    do: Literal["begin"] = "begin"
    cell: Cell
    platform: Platform
    leaves_at_once: bool = False
    """Read by workers of earlier revisions only, which ``--against`` may start."""


class Prepare(Frozen):
    """Make a cell's data."""

    do: Literal["prepare"] = "prepare"
    cell: Cell
    log: Path = OWN_OUTPUT


class Measure(Frozen):
    """Measure and verify one round of a cell."""

    do: Literal["measure"] = "measure"
    cell: Cell
    round: int
    effort: Effort
    log: Path = OWN_OUTPUT


class JudgeRound(Frozen):
    """Judge a round that another worker measured."""

    do: Literal["judge"] = "judge"
    cell: Cell
    claim: RoundResult
    evidence: Path
    seen: ObservedRound
    log: Path = OWN_OUTPUT


class See(Frozen):
    """List the accelerators that a library computes on. The worker can do nothing else then."""

    do: Literal["see"] = "see"
    library: SeenBy
    platform: Platform
    measured: tuple[str, ...]
    """Modules to be measured."""
    log: Path = OWN_OUTPUT


class Go(Frozen):
    """Go on: sampling of the process tree has begun, or `seen` has its result."""

    do: Literal["go"] = "go"
    seen: Resources = Resources()
    slices: tuple[tuple[int, int], ...] | None = None
    """The region's slices, as `skymark.measure.slices.Slices` has them: none yet where they begin,
    all at the end; null for a region that is measured in one piece. Sent only to workers that asked
    for slices."""


class End(Frozen):
    """Close the runner and leave."""

    do: Literal["end"] = "end"


Request = Begin | Prepare | Measure | JudgeRound | See | Go | End

# From the worker to the engine


class Ready(Frozen):
    """The runner is made."""

    event: Literal["ready"] = "ready"


class Prepared(Frozen):
    """The data is there."""

    event: Literal["prepared"] = "prepared"


class TimedRegionBegins(Frozen):
    """The timed region is about to begin; sample the process tree without the excluded ones."""

    event: Literal["timed-region-begins"] = "timed-region-begins"
    exclude: tuple[int, ...] = ()
    in_slices: bool = False
    """Whether the region may be cut into slices; workers of earlier revisions do not say."""


class TimedRegionEnds(Frozen):
    """The timed region has ended; send the samples."""

    event: Literal["timed-region-ends"] = "timed-region-ends"


class Measured(Frozen):
    """A round is measured; without evidence for a judge, its own verdict stands."""

    event: Literal["measured"] = "measured"
    result: RoundResult
    versions: dict[str, str]
    evidence: Path | None = None


class Judged(Frozen):
    """A round is judged."""

    event: Literal["judged"] = "judged"
    verification: Verification


class Saw(Frozen):
    """The accelerators that the library computes on."""

    event: Literal["saw"] = "saw"
    seen: SeenDevices


class Failed(Frozen):
    """A request failed; the worker can go on with another."""

    event: Literal["failed"] = "failed"
    kind: str
    message: str


Event = Ready | Prepared | TimedRegionBegins | TimedRegionEnds | Measured | Judged | Saw | Failed

# Between the engine and a parent of workers, which has a socket of its own


class Serve(Frozen):
    """Serve at the two descriptors of this message, in a process of its own if possible."""

    first: bool
    """Whether no worker of the parent has measured yet."""


class Serving(Frozen):
    """A worker serves."""

    told: Literal["serving"] = "serving"
    pid: int
    obstacle: str | None = None
    """Reason why the parent could not fork and serves one request itself."""


class WorkerEnded(Frozen):
    """The worker that was forked has ended."""

    told: Literal["ended"] = "ended"
    code: int
    """Its exit status, or less than 0: the signal that ended it."""


REQUESTS: TypeAdapter[Request] = TypeAdapter(Annotated[Request, Field(discriminator="do")])
EVENTS: TypeAdapter[Event] = TypeAdapter(Annotated[Event, Field(discriminator="event")])
NEWS: TypeAdapter[Serving | WorkerEnded] = TypeAdapter(
    Annotated[Serving | WorkerEnded, Field(discriminator="told")]
)


def line_of(message: Request | Event | Serve | Serving | WorkerEnded) -> str:
    """Return a message as one line of JSON with a newline.

    Null fields are omitted, because a worker of an earlier revision may not know them.
    """
    return message.model_dump_json(exclude_none=True) + "\n"
