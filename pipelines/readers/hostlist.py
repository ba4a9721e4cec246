"""Slurm's short form of many host names: ``node[01-03,07],gpu-[1-2]-ib`` names six."""

from __future__ import annotations

import re

_MOST = 100_000  # names of one list; a longer one is no cluster's
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"(\d+)-(\d+)")
_NONE = frozenset({"", "(null)", "none", "none assigned", "n/a", "null"})


def expand(text: str) -> list[str]:
    """Every host name, in the list's order; none of ``(null)`` and ``None assigned``.

    Raises
    ------
    ValueError
        Brackets that don't close, a range that runs backwards, or over 100,000 names.
    """
    if text.strip().casefold() in _NONE:
        return []
    out: list[str] = []
    for part in _parts(text):
        out += _expanded(part, _MOST - len(out))
    return out


def _parts(text: str) -> list[str]:
    """The list at its commas outside brackets; spaces, ``;`` and ``|`` divide as well."""
    parts, depth = [""], 0
    for char in text:
        depth += (char == "[") - (char == "]")
        if depth not in (0, 1):
            raise ValueError(f"brackets of the host list {text[:80]!r} do not match")
        if depth == 0 and char in ", ;|\t":
            parts.append("")
        else:
            parts[-1] += char
    if depth:
        raise ValueError(f"brackets of the host list {text[:80]!r} do not match")
    return [part for part in parts if part]


def _expanded(part: str, most: int) -> list[str]:
    """The names of one entry; several brackets multiply."""
    found = _BRACKETS.search(part)
    if not found:
        return [part]
    ends = _expanded(part[found.end() :], most)
    numbers = [number for item in found[1].split(",") for number in _numbers(item.strip(), most)]
    if len(numbers) * len(ends) > most:
        raise ValueError(f"the host list {part[:80]!r} names over {_MOST} hosts")
    return [f"{part[: found.start()]}{number}{end}" for number in numbers for end in ends]


def _numbers(item: str, most: int) -> list[str]:
    found = _RANGE.fullmatch(item)
    if not found:
        if not item.isalnum():
            raise ValueError(f"{item[:80]!r} is no part of a host list")
        return [item]
    low, high = int(found[1]), int(found[2])
    if high < low or high - low >= most:
        raise ValueError(f"{item[:80]!r} is no range of a host list")
    return [str(number).zfill(len(found[1])) for number in range(low, high + 1)]
