"""NVIDIA's XID codes: what they mean, what to do, and whether one is a failure; `xid_catalog.csv` as objects."""

from __future__ import annotations

import csv
from functools import cache
from importlib import resources
from typing import NamedTuple

from features.settings import LabelSettings
from features.tables import UsageError

PRESETS = ("hardware", "paper", "all")
# Errors of NVLink 5: the line says of each whether it is fatal
NVLINK = frozenset(range(144, 151))


class Code(NamedTuple):
    """One row of the catalogue."""

    code: int
    mnemonic: str
    meaning: str
    action: str  # NVIDIA's immediate action, "" when the catalogue names none
    kind: str  # hardware | degradation | application | metadata | unknown
    paper: bool  # whether the study of 504 GPUs counted it as a failure


@cache
def codes() -> dict[int, Code]:
    """All codes of the catalogue."""
    text = resources.files("features").joinpath("xid_catalog.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return {
        int(row["code"]): Code(
            int(row["code"]), row["mnemonic"], row["meaning"], row["action"], row["class"], row["paper"] == "yes"
        )
        for row in rows
    }


def kind(code: int | None, severity: str = "", unit: str = "") -> str:
    """The class of an XID by its catalogue row and, for NVLink 5, by what its line says.

    Parameters
    ----------
    code
        None is an error of a switch.
    severity
        Fatal, Nonfatal or "".
    unit
        The NVLink 5 unit that reported it.
    """
    if code is None:
        return "switch"
    row = codes().get(code)
    if row is None:
        return "unknown"
    if code in NVLINK:
        if severity == "Nonfatal" or unit == "NETIR_BER_EVENT":
            return "degradation"
        # A gauge or a line that is cut off does not say: no failure is made up from it
        return row.kind if severity == "Fatal" else "unknown"
    return row.kind


def is_target(code: int | None, event_kind: str, settings: LabelSettings, detail: str = "") -> bool:
    """Whether an event of this code and class is a failure by the preset and the user's overrides.

    Raises
    ------
    UsageError
        The preset is unknown.
    """
    if settings.preset not in PRESETS:
        raise UsageError(f"preset {settings.preset!r} is unknown; the presets are {', '.join(PRESETS)}")
    if code in settings.not_hardware:
        return False
    if code in settings.hardware:
        return True
    if code is None and event_kind == "hardware":  # a GPU that vanished without an XID; the study counted XIDs
        return settings.preset != "paper"
    if settings.preset == "all":
        return event_kind != "metadata"
    if settings.preset == "paper":
        row = codes().get(code) if code is not None else None
        return bool(row and row.paper) and not detail.startswith("NETIR_BER_EVENT")
    return event_kind == "hardware"


def action(code: int | None) -> str:
    """NVIDIA's immediate action, "" when there is none."""
    row = codes().get(code) if code is not None else None
    return row.action if row else ""
