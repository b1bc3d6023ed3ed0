"""Random windows: stretches of a sound or a video clip that begin at a drawn place."""

from __future__ import annotations


def window_start(share: float, whole: int, window: int) -> int:
    """Return where a window begins: each place is as likely, if the share is uniform in [0, 1).

    Args:
        share: of the places where it may begin.
        whole: samples or frames that there are.
        window: samples or frames that it spans; 0 is returned where there are fewer.
    """
    return max(0, int(share * (whole - window + 1)))
