"""NVIDIA's XID codes: what they mean, what to do, and whether one is a failure; `xid_catalog.csv` as objects."""

from __future__ import annotations

import csv
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from features.settings import CodeSettings, LabelSettings
from features.tables import UsageError

PRESETS = ("hardware", "paper", "all")
_COLUMNS = {"code", "mnemonic", "meaning", "action", "class", "paper"}
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
    return {
        code: Code(code, said.mnemonic, said.meaning, said.action, said.kind, bool(said.paper))
        for code, said in parse(text).items()
    }


def parse(text: str) -> dict[int, CodeSettings]:
    """Codes of a CSV with the columns code, mnemonic, meaning, action, class, paper; all but the first may be absent.

    Raises
    ------
    ValueError
        A column is unknown, a code is no number or comes twice, or a class is none; the message names the line.
    """
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line and not line.startswith("#")]
    reader = csv.DictReader(line for _, line in lines)
    names = reader.fieldnames or []
    if "code" not in names or (unknown := set(names) - _COLUMNS):
        wrong = "no column code" if "code" not in names else f"unknown column {min(unknown)}"
        raise ValueError(f"{wrong}; wanted {','.join(sorted(_COLUMNS))}")
    found: dict[int, CodeSettings] = {}
    for (number, _), row in zip(lines[1:], reader, strict=False):
        paper = {"yes": True, "no": False}.get(row.get("paper") or "")
        try:
            code = int(row["code"])
            twice = code in found
            said = {name: (row.get(name) or "").strip() for name in ("mnemonic", "meaning", "action")}
            kind: Any = (row.get("class") or "").strip()
            found[code] = CodeSettings(**said, kind=kind, paper=paper)
        except ValueError as error:
            raise ValueError(f"line {number}: {row}: {str(error).splitlines()[0]}") from error
        if twice:
            raise ValueError(f"line {number}: code {code} comes twice")
    return found


def lookup(code: int | None, settings: LabelSettings) -> Code | None:
    """What is known of a code: the user's words, and the catalogue's where the user has none."""
    row = codes().get(code) if code is not None else None
    own = settings.codes.get(code) if code is not None else None
    if code is None or own is None:
        return row
    row = row or Code(code, "", "", "", "unknown", paper=False)
    said = {name: text for name in ("mnemonic", "meaning", "action", "kind") if (text := getattr(own, name))}
    return row._replace(**said, paper=row.paper if own.paper is None else own.paper)


def kind_for(code: int | None, event_kind: str, settings: LabelSettings) -> str:
    """An event's class with the user's catalogue; of an NVLink error that is not said to be fatal it stays."""
    own = settings.codes.get(code) if code is not None else None
    if own is None or not own.kind or (code in NVLINK and event_kind in {"degradation", "unknown"}):
        return event_kind
    return own.kind


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
    event_kind = kind_for(code, event_kind, settings)
    if code in settings.not_hardware:
        return False
    if code in settings.hardware:
        return True
    if code is None and event_kind == "hardware":  # a GPU that vanished without an XID; the study counted XIDs
        return settings.preset != "paper"
    if settings.preset == "all":
        return event_kind != "metadata"
    if settings.preset == "paper":
        row = lookup(code, settings)
        return bool(row and row.paper) and not detail.startswith("NETIR_BER_EVENT")
    return event_kind == "hardware"


def action(code: int | None, settings: LabelSettings | None = None) -> str:
    """NVIDIA's immediate action, or the user's; "" when there is none."""
    row = lookup(code, settings or LabelSettings())
    return row.action if row else ""
