"""Student's distribution, by scipy, which is loaded when the first interval is made."""

from __future__ import annotations

CONFIDENCE = 0.95


def student_quantile(degrees: float, confidence: float = CONFIDENCE) -> float:
    """Return t such that Student's distribution has this much probability in [-t, t].

    Raises:
        ValueError: fewer than one degree of freedom.
    """
    from scipy.special import stdtrit

    if degrees < 1:
        raise ValueError(f"Student's distribution needs a degree of freedom, not {degrees}")
    return float(stdtrit(degrees, (1 + confidence) / 2))


def student_p_value(t: float, degrees: float) -> float:
    """Return the probability outside [-t, t] under Student's distribution."""
    from scipy.special import stdtr

    return float(2 * stdtr(degrees, -abs(t)))
