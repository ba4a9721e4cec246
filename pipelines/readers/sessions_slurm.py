"""Slurm's accounting as text: ``sacct --parsable2 -o JobID,JobName,User,State,Start,End,NodeList``.

A resubmitted job has a new JobID, so tries are told to be one job's by user and name; a requeued one comes several
times under its JobID with ``--duplicates``. Times have the zone of the machine that ran sacct: name it.
"""

from __future__ import annotations

import csv
import re
from typing import Any

from pipelines.readers.tally import Tally

_WANTED = ("jobid", "state", "start", "end")
# names that sbatch and salloc give by themselves: they say nothing of what ran
_NAMELESS = frozenset({"", "wrap", "bash", "sh", "interactive", "sbatch", "allocation"})
_TASK = re.compile(r"_(\d+)$")


def is_header(line: str) -> bool:
    """Whether a file's first line is sacct's header."""
    names = {name.strip().casefold() for name in line.split("|")}
    return set(_WANTED) <= names


def tries(text: str, tally: Tally) -> list[dict[str, Any]]:
    """Jobs of the export as `pipelines.readers.sessions.table` wants them; steps are counted, not kept."""
    reader = csv.reader(text.splitlines(), delimiter="|", quoting=csv.QUOTE_NONE)
    names = [name.strip().casefold() for name in next(reader)]
    out: list[dict[str, Any]] = []
    parts: dict[tuple[str, str], dict[str, Any]] = {}
    for cells in reader:
        if not cells:
            continue
        row = dict(zip(names, (cell.strip() for cell in cells), strict=False))
        number = row.get("jobid", "")
        if len(cells) < len(names) or not number:
            tally.drop("torn line")
        elif "." in number:
            tally.drop("step of a job")
        elif "+" in number and (key := (number.partition("+")[0], row["start"])) in parts:
            # one part of a job of several kinds of nodes: it is the same try
            parts[key]["nodes"] += f",{row.get('nodelist', '')}"
            tally.drop("part of a job, joined to it")
        else:
            one = _try(row, number)
            parts[number.partition("+")[0], row["start"]] = one
            out.append(one)
    return out


def _try(row: dict[str, str], number: str) -> dict[str, Any]:
    name, user = row.get("jobname", ""), row.get("user", "")
    task = _TASK.search(number)
    job = f"job-{number.partition('+')[0]}" if name.casefold() in _NAMELESS else f"{name}{task[0] if task else ''}"
    return {
        "job": f"{user}/{job}" if user else job,
        "started": row["start"],
        "ended": row["end"],
        "outcome": row["state"],
        "nodes": row.get("nodelist", ""),
        "excluded": row.get("excnodes", row.get("excludednodes", "")),
    }
