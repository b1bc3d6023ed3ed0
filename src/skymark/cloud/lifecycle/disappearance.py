"""The proof that machines are gone, from repeated looks at their provider's list."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

QUIET_S = 40.0
"""How long a list may lack machines that run: one look at it proves nothing."""
DROPPED_S = 4.0
"""How long it has to lack machines of which it said before that they were about to end."""
LOOKS = 3
"""The fewest looks that prove anything."""

_Moment = tuple[float, float]
"""When a provider was asked, and when it had answered, in s."""


class Disappearance:
    """What a provider's list said of machines, look by look.

    Gone are those that were about to end, by the list, and then were no longer on it; and those
    of which it said for `QUIET_S` that none runs. A machine that runs refutes what came before.

    Args:
        ids: of the machines, as far as they are known.
        quiet_s: in place of `QUIET_S`.
        dropped_s: in place of `DROPPED_S`.
    """

    def __init__(
        self, ids: Iterable[str] = (), quiet_s: float = QUIET_S, dropped_s: float = DROPPED_S
    ) -> None:
        self.ids = set(ids)
        """Those that were ever listed, too."""
        self.running: frozenset[str] = frozenset()
        """By the last look."""
        self._quiet_s = quiet_s
        self._dropped_s = dropped_s
        self._ending: set[str] = set()
        """Listed as about to end, and never as running since."""
        self._quiet: list[_Moment] = []
        """Moments of the looks since one last ran."""
        self._absent: list[_Moment] = []
        """Moments of the looks since one was last listed."""

    def look(self, listed: Mapping[str, bool], asked_s: float, answered_s: float) -> None:
        """Take in what the list said at some moment between the question and its answer.

        Args:
            listed: whether each machine on it runs, by its id.
            asked_s: when the provider was asked.
            answered_s: when the answer was there, by the same clock.
        """
        moment = asked_s, answered_s
        self.ids |= set(listed)
        self.running = frozenset(id for id, runs in listed.items() if runs)
        self._ending = (self._ending | set(listed)) - self.running
        self._quiet = [] if self.running else [*self._quiet, moment]
        self._absent = [] if listed else [*self._absent, moment]

    @property
    def proved(self) -> bool:
        """Whether all are gone."""
        if self.ids and self.ids <= self._ending and _lasted(self._absent, self._dropped_s):
            return True
        return _lasted(self._quiet, self._quiet_s)


def _lasted(moments: list[_Moment], seconds: float) -> bool:
    if len(moments) < LOOKS:
        return False
    (_, first_answered_s), (last_asked_s, _) = moments[0], moments[-1]
    return last_asked_s - first_answered_s >= seconds
