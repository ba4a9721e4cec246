"""What small counts of retries and repairs can say: shares, comparisons, spreads, concentration, survival.

Each figure comes with its exact interval or with what chance alone would give, so that a share of twelve chains is
never read as one of twelve hundred.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from features.tables import UsageError
from models.intervals import clopper_pearson

Floats = NDArray[np.float64]
_BARNARD_MOST = 400  # tries; beyond this Barnard's test takes seconds and agrees with Fisher's


def share(count: int, total: int, confidence: float = 0.95) -> dict[str, Any]:
    """``count``, ``of``, ``share`` (None of nothing) and its exact ``interval``."""
    low, high = clopper_pearson(count, total, confidence)
    return {"count": count, "of": total, "share": count / total if total else None, "interval": [low, high]}


def compare(
    first: Mapping[str, Any], second: Mapping[str, Any], names: tuple[str, str], what: str, level: float = 0.05
) -> dict[str, Any]:
    """Whether two shares differ: Fisher's and Barnard's exact tests, two-sided, and the sentence that follows.

    Parameters
    ----------
    first, second
        As `share` gives them.
    names
        Who was tried, as "automatic chains" and "manual chains".
    what
        What became of them, as "succeed".
    level
        A p above this is no difference that these counts can show.

    Returns
    -------
    dict
        fisher_p and barnard_p (None when one side is empty), significant, sentence.
    """
    told = [
        f"{_percent(side['share'])} ({side['count']} of {side['of']}) of {name}"
        for side, name in _sides(first, second, names)
    ]
    if not first["of"] or not second["of"]:
        empty = names[0] if not first["of"] else names[1]
        sentence = f"There are no {empty}, so nothing can be said of how often the two {what}."
        return {"fisher_p": None, "barnard_p": None, "significant": False, "sentence": sentence}
    table = [[side["count"], side["of"] - side["count"]] for side in (first, second)]
    fisher = float(stats.fisher_exact(table).pvalue)
    few = first["of"] + second["of"] <= _BARNARD_MOST
    flat = not first["count"] + second["count"] or all(side["count"] == side["of"] for side in (first, second))
    barnard = 1.0 if flat else float(stats.barnard_exact(table).pvalue) if few else None
    significant = fisher < level
    verdict = (
        f"the difference reaches significance (Fisher's exact p = {fisher:.2g})"
        if significant
        else f"the difference does not reach significance (Fisher's exact p = {fisher:.2f}): "
        "so few tries can't tell the two apart"
    )
    sentence = f"{told[0]} {what} against {told[1]}; {verdict}."
    return {"fisher_p": fisher, "barnard_p": barnard, "significant": significant, "sentence": sentence}


def _sides(
    first: Mapping[str, Any], second: Mapping[str, Any], names: tuple[str, str]
) -> list[tuple[Mapping[str, Any], str]]:
    return [(first, names[0]), (second, names[1])]


def _percent(value: float | None) -> str:
    return "none" if value is None else f"{100 * value:.1f} %"


def spread(values: ArrayLike, confidence: float = 0.95) -> dict[str, Any]:
    """``n``, ``median``, quartiles ``q1`` and ``q3``, and the median's exact interval from order statistics.

    The interval is None where there are too few values for one at this confidence (fewer than six at 95 %).
    """
    known = np.sort(np.asarray(values, dtype=float))
    known = known[np.isfinite(known)]
    if not len(known):
        return {"n": 0, "median": None, "q1": None, "q3": None, "median_interval": None}
    q1, median, q3 = (float(value) for value in np.percentile(known, [25, 50, 75]))
    # Conover 1999: between the k-th smallest and the k-th largest with probability 1 - 2 P(B(n, 1/2) < k)
    rank = int(stats.binom.ppf((1 - confidence) / 2, len(known), 0.5))
    interval = [float(known[rank - 1]), float(known[-rank])] if rank >= 1 else None
    return {"n": len(known), "median": median, "q1": q1, "q3": q3, "median_interval": interval}


def gini(counts: ArrayLike) -> float | None:
    """0 when all have the same count, near 1 when one has all; None without any."""
    ordered = np.sort(np.asarray(counts, dtype=float))
    total, size = ordered.sum(), len(ordered)
    if not total:
        return None
    return float((2 * np.arange(1, size + 1) - size - 1) @ ordered / (size * total))


def concentration(
    counts: Mapping[str, int],
    nodes: int,
    tops: Sequence[int] = (1, 3, 5),
    draws: int = 2000,
    confidence: float = 0.95,
    seed: int = 0,
) -> dict[str, Any]:
    """How unevenly events fall on nodes, beside what chance alone would give.

    Few events on many nodes are always uneven, so each figure has its mean and its p under equal chances
    (``draws`` multinomial draws).

    Parameters
    ----------
    counts
        Events by node; nodes without any may be left out.
    nodes
        How many nodes there are.

    Returns
    -------
    dict
        events, nodes, nodes_touched, top (list of k, count, of, share, interval, by_chance, p), gini, gini_by_chance,
        gini_p, by_node (the most touched first).

    Raises
    ------
    UsageError
        Fewer nodes than have events.
    """
    touched = {node: int(count) for node, count in counts.items() if count}
    if nodes < len(touched):
        raise UsageError(f"wanted at least the {len(touched)} nodes that have events, found {nodes}; set retries.nodes")
    total = sum(touched.values())
    ordered = np.zeros(max(nodes, 1), dtype=np.int64)
    ordered[: len(touched)] = sorted(touched.values(), reverse=True)
    drawn = -np.sort(-np.random.default_rng(seed).multinomial(total, np.full(len(ordered), 1 / len(ordered)), draws))
    top = []
    for k in (k for k in tops if k <= nodes and total):
        held, chance = int(ordered[:k].sum()), drawn[:, :k].sum(axis=1)
        by_chance = float(chance.mean() / total)
        top.append({"k": k, **share(held, total, confidence), "by_chance": by_chance, "p": _rank(chance >= held)})
    found = gini(ordered)
    chances = np.array([gini(row) or 0.0 for row in drawn])
    by_node = sorted(touched.items(), key=lambda item: (-item[1], item[0]))
    return {
        "events": total,
        "nodes": nodes,
        "nodes_touched": len(touched),
        "top": top,
        "gini": found,
        "gini_by_chance": float(chances.mean()) if found is not None else None,
        "gini_p": None if found is None else _rank(chances >= found - 1e-12),
        "by_node": [{"node": node, **share(count, total, confidence)} for node, count in by_node],
    }


def _rank(as_extreme: NDArray[np.bool_]) -> float:
    """The p of a Monte Carlo test (Phipson and Smyth 2010: never zero)."""
    return float((as_extreme.sum() + 1) / (len(as_extreme) + 1))


def survival(
    days: ArrayLike, observed: ArrayLike, at: Sequence[float] = (1, 7, 14, 30), confidence: float = 0.95
) -> dict[str, Any]:
    """Share of nodes that have not failed again by each day (Kaplan and Meier 1958).

    Parameters
    ----------
    days
        [n] from a repair to the next failure, or to the end of the record.
    observed
        [n] True where a failure ended it.

    Returns
    -------
    dict
        n, failed, median_days (None when fewer than half failed), curve (list of days, share, low, high, at_risk),
        at (the same at given days; None beyond what was watched). Bounds are of the log-log form; None where it
        has none.
    """
    length, failed = np.asarray(days, dtype=float), np.asarray(observed, dtype=bool)
    if not len(length):
        return {"n": 0, "failed": 0, "median_days": None, "curve": [], "at": []}
    found = stats.ecdf(stats.CensoredData.right_censored(length, ~failed)).sf
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        # before the first and after the last failure the formula divides by zero, and the bound is NaN
        warnings.simplefilter("ignore", RuntimeWarning)
        bounds = found.confidence_interval(confidence_level=confidence, method="log-log")
    low, high = bounds.low.probabilities, bounds.high.probabilities
    curve: list[dict[str, Any]] = [
        {
            "days": float(day),
            "share": float(left),
            "low": _finite(below),
            "high": _finite(above),
            "at_risk": int((length >= day).sum()),
        }
        for day, left, below, above in zip(found.quantiles, found.probabilities, low, high, strict=True)
    ]
    half = [point["days"] for point in curve if point["share"] <= 0.5 + 1e-12]
    return {
        "n": len(length),
        "failed": int(failed.sum()),
        "median_days": half[0] if half else None,
        "curve": curve,
        "at": [_at(curve, day) for day in at],
    }


def _at(curve: Sequence[Mapping[str, Any]], day: float) -> dict[str, Any]:
    """The curve's step that holds at a day."""
    past = [point for point in curve if point["days"] <= day]
    if not curve or curve[-1]["days"] < day:
        return {"days": day, "share": None, "low": None, "high": None}
    last = past[-1] if past else {"share": 1.0, "low": None, "high": None}
    return {"days": day, "share": last["share"], "low": last["low"], "high": last["high"]}


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def sooner(first: tuple[ArrayLike, ArrayLike], second: tuple[ArrayLike, ArrayLike]) -> float | None:
    """Two-sided log-rank p of two groups of (days, observed); None when one is empty or nothing failed."""
    groups = [(np.asarray(days, dtype=float), np.asarray(seen, dtype=bool)) for days, seen in (first, second)]
    if any(not len(days) for days, _ in groups) or not any(seen.any() for _, seen in groups):
        return None
    censored = [stats.CensoredData.right_censored(days, ~seen) for days, seen in groups]
    with np.errstate(all="ignore"):
        p = float(stats.logrank(*censored).pvalue)
    return p if np.isfinite(p) else None
