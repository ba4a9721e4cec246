"""Tries of training jobs as chains of retries, and the nodes that were left out of them.

A chain is a job that came back: tries of the same job, each soon after the end of the one before, until one
succeeds. A retry is told automatic from manual by how long it let wait, for no scheduler says who restarted a job.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from features.settings import RetrySettings, to_nanoseconds
from features.tables import TIME_DTYPE

SUCCESS, FAILURE, STOPPED, UNKNOWN = "success", "failure", "stopped", "unknown"
_SUCCESS = frozenset(
    {"completed", "complete", "succeeded", "success", "successful", "ok", "done", "finished", "passed"}
)
# Neither worked nor broke: somebody or something more important ended it
_STOPPED = frozenset({"cancelled", "canceled", "preempted", "revoked", "suspended", "stopped", "requeued"})
# Slurm's states, Kubernetes' reasons and what schedulers of other kinds write
_FAILURE = frozenset(
    {"failed", "failure", "fail", "error", "errored", "timeout", "node_fail", "nodefail", "out_of_memory", "oom"}
    | {"oomkilled", "boot_fail", "launch_failed", "deadline", "deadlineexceeded", "backofflimitexceeded", "crashed"}
    | {"aborted", "killed", "evicted", "lost", "exited", "terminated", "special_exit", "reconfig_fail"}
)
_UNKNOWN = frozenset({"", "unknown", "running", "pending", "active", "configuring", "completing", "none", "null"})
_SECOND = 1_000_000_000
NAT = int(np.iinfo(np.int64).min)  # what NaT is as int64


def _word(outcome: str) -> str:
    return outcome.strip().casefold().split(" ")[0].rstrip("+")  # sacct writes "CANCELLED by 1000", and CANCELLED+


def unfamiliar(outcomes: Iterable[object]) -> Counter[str]:
    """Words for an ending that nobody has said the meaning of, and how often each came; they count as failures."""
    known = _SUCCESS | _STOPPED | _UNKNOWN | _FAILURE
    return Counter(str(outcome) for outcome in outcomes if _word(str(outcome)) not in known)


def kind_of(outcome: str) -> str:
    """What a scheduler's word for an ending means; any word not known is a failure."""
    first = _word(outcome)
    for words, kind in ((_SUCCESS, SUCCESS), (_STOPPED, STOPPED), (_UNKNOWN, UNKNOWN)):
        if first in words:
            return kind
    return FAILURE


def listed(value: object) -> list[str]:
    """Node names of a cell, each once; a cell without a list names none."""
    return list(dict.fromkeys(map(str, value))) if isinstance(value, list | tuple | np.ndarray) else []


def exclusions(sessions: pd.DataFrame) -> pd.DataFrame:
    """When nodes were left out: columns node, time, job, attempt, in time order.

    A node among the try's own nodes was put aside when the try ended; any other was left out when it began. A try
    that does not say its nodes tells at its end, the later of the two, so that nothing is known before it happened.
    Named again before it ran anywhere, a node is still the same exclusion.
    """
    rows: list[tuple[int, str, str, int]] = []
    runs: dict[str, list[int]] = {}
    columns = (sessions[name] for name in ("job", "attempt", "nodes", "excluded"))
    begun, ended = _ns(sessions["started"]), _ns(sessions["ended"])
    for job, attempt, nodes, left_out, start, end in zip(*columns, begun.tolist(), ended.tolist(), strict=True):
        own = listed(nodes)
        for node in own:
            runs.setdefault(node, []).append(start)
        for node in listed(left_out):
            time = end if node in own or not own else start
            if time != NAT:
                rows.append((time, node, str(job), int(attempt)))
    rows.sort()
    last: dict[str, int] = {}
    kept = []
    for row in rows:
        time, node = row[:2]
        before = last.get(node)
        if before is None or any(before <= run < time for run in runs.get(node, ())):
            kept.append(row)
            last[node] = time
    times = pd.to_datetime([row[0] for row in kept], utc=True).as_unit("ns")
    return pd.DataFrame(
        {
            "node": pd.Series([row[1] for row in kept], dtype="str"),
            "time": pd.Series(times, dtype=TIME_DTYPE),
            "job": pd.Series([row[2] for row in kept], dtype="str"),
            "attempt": pd.Series([row[3] for row in kept], dtype="int64"),
        }
    )


def dropped(tried: pd.DataFrame) -> pd.DataFrame:
    """Nodes that a failed try had and its retry ran without, for records that name no exclusions; as `exclusions`.

    Only where at least half of the nodes stayed: another set altogether says nothing of a single node.
    """
    rows = []
    columns = (tried[name].tolist() for name in ("chain", "kind", "nodes", "started", "job", "attempt"))
    for before, after in pairwise(zip(*columns, strict=True)):
        had, has = set(before[2]), set(after[2])
        if before[0] == after[0] and before[1] == FAILURE and not pd.isna(after[3]) and len(had & has) * 2 >= len(had):
            rows += [
                {"node": node, "time": after[3], "job": after[4], "attempt": after[5]} for node in sorted(had - has)
            ]
    frame = pd.DataFrame(rows, columns=["node", "time", "job", "attempt"]).sort_values("time", ignore_index=True)
    return frame.astype({"node": "str", "time": TIME_DTYPE, "job": "str", "attempt": "int64"})


def returns(sessions: pd.DataFrame, left_out: pd.DataFrame) -> pd.Series[pd.Timestamp]:
    """When each exclusion's node was first given to a job again; NaT while it was not."""
    runs: dict[str, list[int]] = {}
    for nodes, start in zip(sessions["nodes"], _ns(sessions["started"]).tolist(), strict=True):
        for node in listed(nodes):
            runs.setdefault(node, []).append(start)
    back = [
        min((run for run in runs.get(str(node), ()) if run > time and run != NAT), default=NAT)
        for node, time in zip(left_out["node"], _ns(left_out["time"]).tolist(), strict=True)
    ]
    return pd.Series(np.array(back, dtype=np.int64).view("datetime64[ns]"), index=left_out.index).dt.tz_localize("UTC")


def attempts(sessions: pd.DataFrame, settings: RetrySettings, doubts: Counter[str] | None = None) -> pd.DataFrame:
    """Every try with its chain, one row each, by chain and time.

    Parameters
    ----------
    sessions
        Frame of `SESSIONS`.
    doubts
        Filled with how many tries can't be told in full, by reason.

    Returns
    -------
    DataFrame
        job, attempt, started, ended, kind (success | failure | stopped | unknown), nodes, chain (number), place (1 is
        the chain's first), gap_seconds (from the end of the try before; NaN for the first and where it can't be
        told), automatic ("yes", "no" or ""), hours (NaN without an end).
    """
    counts = Counter() if doubts is None else doubts
    frame = sessions.assign(job=_jobs(sessions["job"], settings.same_job))
    frame = frame.sort_values(["job", "started", "attempt"], ignore_index=True)
    begun, ended = _ns(frame["started"]), _ns(frame["ended"])
    counts["without a start"] += int((begun == NAT).sum())
    backwards = (ended != NAT) & (begun != NAT) & (ended < begun)
    counts["that end before they start"] += int(backwards.sum())
    ended = np.where(backwards, NAT, ended)
    kinds = [kind_of(str(text)) for text in frame["outcome"]]
    over = np.array([kind in (SUCCESS, FAILURE, STOPPED) for kind in kinds], dtype=bool)
    counts["without an end"] += int(((ended == NAT) & ~backwards & over).sum())
    counts["still running or of unknown outcome"] += int((~over).sum())
    chain, gap = _link(frame, begun, ended, kinds, settings, counts)
    within = settings.automatic_within.total_seconds()
    told = ~np.isnan(gap)
    automatic = np.where(told, np.where(gap <= within, "yes", "no"), "")
    known = (ended != NAT) & (begun != NAT)
    hours = np.where(known, (ended - np.where(known, begun, 0)) / _SECOND / 3600, np.nan)
    out = pd.DataFrame(
        {
            "job": frame["job"],
            "attempt": frame["attempt"],
            "started": frame["started"],
            "ended": frame["ended"].where(~backwards),
            "kind": pd.Series(kinds, dtype="str"),
            "nodes": pd.Series([listed(nodes) for nodes in frame["nodes"]], dtype=object),
            "chain": chain,
            "gap_seconds": gap,
            "automatic": pd.Series(automatic, dtype="str"),
            "hours": hours,
        }
    )
    out.insert(7, "place", out.groupby("chain").cumcount() + 1)
    return out


def _jobs(names: pd.Series[str], pattern: str) -> pd.Series[str]:
    """The names, or what the pattern's first group finds in them."""
    if not pattern:
        return names
    found = names.str.extract(pattern, expand=True)[0]
    return found.fillna(names).astype("str")


def _link(
    frame: pd.DataFrame,
    begun: np.ndarray[Any, Any],
    ended: np.ndarray[Any, Any],
    kinds: Sequence[str],
    settings: RetrySettings,
    counts: Counter[str],
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Number of each row's chain, and seconds since the end of the chain's try before; rows by job and start."""
    most, slack = to_nanoseconds(settings.chain_gap), to_nanoseconds(settings.clock_slack)
    chain, gap = np.zeros(len(frame), dtype=np.int64), np.full(len(frame), np.nan)
    jobs, tries = frame["job"].tolist(), frame["attempt"].tolist()
    for row in range(len(frame)):
        chain[row] = row if row == 0 else chain[row - 1] + 1
        if row == 0 or jobs[row] != jobs[row - 1] or kinds[row - 1] == SUCCESS:
            continue
        if begun[row] == NAT or ended[row - 1] == NAT:
            # nothing tells how long it waited; a number that counts on says that it is the next
            if tries[row] == tries[row - 1] + 1:
                chain[row] = chain[row - 1]
            continue
        wait = int(begun[row] - ended[row - 1])
        if wait > most:
            continue
        chain[row] = chain[row - 1]
        if wait < -slack:
            counts["that begin before the try before has ended"] += 1
        else:
            counts["whose clocks are slightly apart"] += wait < 0
            gap[row] = max(wait, 0) / _SECOND
    return chain, gap


def chains(tried: pd.DataFrame) -> pd.DataFrame:
    """One row a chain of two tries or more, from the rows of `attempts`.

    Returns
    -------
    DataFrame
        chain, job, attempts, started, ended, kind (of its last try), automatic and manual (retries of each), mode
        (automatic | manual | mixed | unknown: which of the two most retries were).
    """
    rows = []
    for number, part in tried.groupby("chain"):
        if len(part) < 2:
            continue
        auto, hand = int((part["automatic"] == "yes").sum()), int((part["automatic"] == "no").sum())
        mode = "unknown" if not auto + hand else "automatic" if auto > hand else "manual" if hand > auto else "mixed"
        rows.append(
            {
                "chain": number,
                "job": part["job"].iloc[0],
                "attempts": len(part),
                "started": part["started"].min(),
                "ended": part["ended"].iloc[-1],
                "kind": part["kind"].iloc[-1],
                "automatic": auto,
                "manual": hand,
                "mode": mode,
            }
        )
    columns = ["chain", "job", "attempts", "started", "ended", "kind", "automatic", "manual", "mode"]
    return pd.DataFrame(rows, columns=columns).sort_values("started", ignore_index=True)


def recoveries(tried: pd.DataFrame, settings: RetrySettings) -> pd.DataFrame:
    """From each chain's first failure to the try that got going again: columns chain, seconds, recovered.

    A try got going when it succeeded or ran at least ``settled``. A chain may break down and recover several times.
    ``seconds`` of one that never did reaches to the end of its last try and is a lower bound.
    """
    settled = settings.settled.total_seconds() / 3600
    rows: list[dict[str, Any]] = []
    for number, part in tried.groupby("chain"):
        broken: int | None = None
        last = NAT
        for kind, start, end, hours in zip(
            part["kind"], _ns(part["started"]).tolist(), _ns(part["ended"]).tolist(), part["hours"], strict=True
        ):
            if broken is not None and start != NAT and (kind == SUCCESS or hours >= settled):
                rows.append({"chain": number, "seconds": max(0, start - broken) / _SECOND, "recovered": True})
                broken = None
            if broken is None and kind == FAILURE and end != NAT:
                broken = end
            last = max(last, end)
        if broken is not None and len(part) > 1 and last > broken:
            rows.append({"chain": number, "seconds": (last - broken) / _SECOND, "recovered": False})
    return pd.DataFrame(rows, columns=["chain", "seconds", "recovered"]).astype({"seconds": float, "recovered": bool})


def lost_hours(tried: pd.DataFrame, settings: RetrySettings) -> dict[str, float]:
    """Node-hours that retries cost: ``waiting`` between tries, ``stumbles`` of tries that died before they got going,
    and ``at_most`` more in longer tries that failed, of which the work after the last checkpoint was lost.
    """
    settled = settings.settled.total_seconds() / 3600
    nodes = np.array([len(names) for names in tried["nodes"]], dtype=float)
    failed, hours = (tried["kind"] == FAILURE).to_numpy(), tried["hours"].to_numpy(dtype=float)
    short = failed & (hours < settled)
    return {
        "waiting": float(np.nansum(tried["gap_seconds"].to_numpy(dtype=float) / 3600 * nodes)),
        "stumbles": float(np.nansum((hours * nodes)[short])),
        "at_most": float(np.nansum((hours * nodes)[failed & (hours >= settled)])),
    }


def costs(tried: pd.DataFrame, settings: RetrySettings) -> np.ndarray[Any, Any]:
    """Node-hours that each failed try cost, float64 [n]: itself when it died early, and the wait for the next.

    0 for one that did not fail, NaN where nodes or times can't be told.
    """
    settled = settings.settled.total_seconds() / 3600
    nodes = np.array([len(names) or np.nan for names in tried["nodes"]], dtype=float)
    hours, gap = tried["hours"].to_numpy(dtype=float), tried["gap_seconds"].to_numpy(dtype=float) / 3600
    follows = np.append(np.diff(tried["chain"].to_numpy()) == 0, False)[: len(tried)]
    wait = np.where(follows, np.append(gap * nodes, 0.0)[1:], 0.0) if len(tried) else np.zeros(0)
    lost = np.where(hours < settled, hours * nodes, 0.0) + wait
    return np.where((tried["kind"] == FAILURE).to_numpy(), lost, 0.0)


def _ns(times: pd.Series[pd.Timestamp]) -> np.ndarray[Any, Any]:
    """int64 nanoseconds since 1970, `NAT` where there is no time."""
    return np.asarray(times.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy(), dtype="datetime64[ns]").view(np.int64)
