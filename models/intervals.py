"""Exact intervals and tests for small counts."""

from __future__ import annotations

from scipy import stats

from features.tables import UsageError


def clopper_pearson(successes: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """The exact interval of a share (Clopper and Pearson 1934); (0, 1) when nothing was tried.

    Raises
    ------
    UsageError
        Fewer than none or more than all succeeded.
    """
    if not 0 <= successes <= trials:
        raise UsageError(f"wanted 0 <= successes <= trials, found {successes} of {trials}")
    if trials == 0:
        return 0.0, 1.0
    tail = (1 - confidence) / 2
    low = stats.beta.ppf(tail, successes, trials - successes + 1) if successes else 0.0
    high = stats.beta.ppf(1 - tail, successes + 1, trials - successes) if successes < trials else 1.0
    return float(low), float(high)


def poisson_rate(events: int, exposure: float, confidence: float = 0.95) -> tuple[float, float]:
    """The exact interval of events per unit of exposure (Garwood 1936).

    Raises
    ------
    UsageError
        The exposure is not above zero or the count is negative.
    """
    if events < 0 or not exposure > 0:
        raise UsageError(f"wanted a count and an exposure above zero, found {events} over {exposure}")
    tail = (1 - confidence) / 2
    low = stats.chi2.ppf(tail, 2 * events) / 2 if events else 0.0
    high = stats.chi2.ppf(1 - tail, 2 * (events + 1)) / 2
    return float(low / exposure), float(high / exposure)


def mcnemar(only_first: int, only_second: int) -> float:
    """Two-sided exact p of two models that differ on these failures (McNemar 1947, binomial form)."""
    if only_first + only_second == 0:
        return 1.0
    return float(stats.binomtest(min(only_first, only_second), only_first + only_second, 0.5).pvalue)
