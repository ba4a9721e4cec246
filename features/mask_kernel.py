"""One pass over the bytes of many lines: words that change from line to line become placeholders.

Compiled, since this is all of Drain3's masking in a hundredth of its time. A word is a run of ASCII letters
and digits; every other byte (``_`` and all of UTF-8 beyond ASCII too) parts words and is copied. What is asked
of a word, in this order:

    8f6d2a1c-0b5e-4c1d-9a53-3f1f6f5a7d10                  <UUID>
    9c:63:c0:03:00:d1:2f:aa, fe80::5054:ff:fe12:3456      <ADDR>   four and more groups of hex
    0000:3a:00.0, 0000:3a:00, 3a:00.0                     <PCI>
    16:48:42.424, 2026-01-04T10:15:00Z, 2026-01-04        <TIME>   dropped where it opens a line
    10.11.10.1, 10.11.10.1:2049                           <IP>
    0xb2000000, 49a51828322183eb                          <HEX>    bare: six digits and more, a letter among them
    300ms, 1m30.5s, 12.5GiB                               <QTY>    the unit grows with the number
    9999, 10000, -5, 1.5e-05, 3.10.0                      <NUM>
    /p/gb2/map.8k, "/v2/servers"                          <PATH>   two slashes and more, not within a word
    eyJhbGciOiJIUzI1NiJ9, x2k4q9                          <ID>     three and more runs of digits, two in a long word
    eth0, nvme0n1                                         eth<NUM>, nvme<NUM>n<NUM>

A list or range of one kind (1,2,7 or 1, 2, 7 or 1 - 7) is one placeholder: its length changes from line to line.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from features.compiling import compiled, part
from features.mask_words import (
    CLASS,
    COLON,
    COMMA,
    DASH,
    DIGIT,
    DOT,
    GREATER,
    HEX_LETTER,
    LEAST_HEX,
    LESS,
    LOWER_X,
    PLUS,
    SLASH,
    SPACE,
    UPPER_X,
    ZERO,
    Bytes,
    groups,
    ip,
    number,
    quantity,
    run,
    time,
    uuid,
)

_NAMES = (b"<NUM>", b"<HEX>", b"<QTY>", b"<ID>", b"<IP>", b"<TIME>", b"<PCI>", b"<ADDR>", b"<UUID>", b"<PATH>")
_NUM, _HEX, _QTY, _ID, _IP, _TIME, _, _, _UUID, _PATH = range(10)
_TEXT = np.frombuffer(b"".join(_NAMES), dtype=np.uint8)
_EDGE = np.cumsum([0, *map(len, _NAMES)])

# where a path may begin after, and what ends it
_BEFORE_PATH = np.zeros(256, dtype=np.bool_)
_BEFORE_PATH[list(b" \t\"'=([<,")] = True
_PATH_STOP = np.zeros(256, dtype=np.bool_)
_PATH_STOP[list(b" \t\"')]<>,;|")] = True

_BATCH_BYTES = 1 << 20
_LONG_ID = 16  # a word as long as this needs only two runs of digits


def mask_bytes(data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Mask lines laid end to end.

    Parameters
    ----------
    data
        UTF-8 bytes.
    offsets
        int64 [lines + 1]; line k is ``data[offsets[k]:offsets[k + 1]]``.

    Returns
    -------
    tuple
        The masked lines in the same form.
    """
    parts, ends = [], np.zeros(len(offsets), dtype=np.int64)
    low = 0
    while low < len(offsets) - 1:
        # a few megabytes at a time stay in the processor's cache, and memory does not grow with the input
        high = max(int(np.searchsorted(offsets, offsets[low] + _BATCH_BYTES, "right")) - 1, low + 1)
        # a placeholder stands for at least one byte, and two of them are parted by at least one more
        out = np.empty(3 * int(offsets[high] - offsets[low]) + 8, dtype=np.uint8)
        reached = np.zeros(high - low + 1, dtype=np.int64)
        _mask_lines(data, offsets[low : high + 1], out, reached)
        parts.append(out[: reached[-1]].copy())
        ends[low + 1 : high + 1] = reached[1:] + ends[low]
        low = high
    return np.concatenate(parts) if parts else data[:0].copy(), ends


@part
def _plain_word(data: Bytes, i: int, end: int) -> tuple[int, int]:
    """HEX, ID or -1 for the word at i, and where it ends."""
    stop, digits, runs, letters, other = i, 0, 0, 0, 0
    while stop < end and CLASS[data[stop]] != 0:
        if CLASS[data[stop]] == DIGIT:
            digits += 1
            if stop == i or CLASS[data[stop - 1]] != DIGIT:
                runs += 1
        elif CLASS[data[stop]] == HEX_LETTER:
            letters += 1
        else:
            other += 1
        stop += 1
    if digits and other == 0 and letters and digits + letters >= LEAST_HEX:
        return _HEX, stop
    prefixed = data[i] == ZERO and stop - i > 2 and (data[i + 1] == LOWER_X or data[i + 1] == UPPER_X)
    if prefixed and other == 1:
        return _HEX, stop
    if letters + other > 0 and (runs >= 3 or (runs == 2 and stop - i >= _LONG_ID)):
        return _ID, stop
    return -1, stop


@part
def _numeric(data: Bytes, i: int, end: int, mark: int) -> tuple[int, int]:
    """What begins with the digit at i and where it ends, or (-1, i); mark is the byte after its hex digits."""
    if mark in (COLON, DASH, SLASH, DOT):
        at = time(data, i, end)
        if at > 0:
            return _TIME, at
    if mark == DOT:
        at = ip(data, i, end)
        if at > 0:
            return _IP, at
    at = quantity(data, i, end)
    if at > 0:
        return _QTY, at
    at = number(data, i, end)
    if data[i] == ZERO and (at - i == 8 or at - i == 16) and run(data, i, end, DIGIT) == at:
        return _HEX, at  # an address of fixed width that happens to have no letter
    return (_NUM, at) if at > 0 else (-1, i)


@part
def _classify(data: Bytes, i: int, end: int) -> tuple[int, int]:
    """What the word at i is (-1: only its digits are masked), and where that ends."""
    if (CLASS[data[i]] & (DIGIT | HEX_LETTER)) != 0:
        stop = run(data, i, end, DIGIT | HEX_LETTER)
        mark = data[stop] if stop < end else 0
        kind, at = -1, i
        if mark == DASH and stop - i == 8:
            at = uuid(data, i, end)
            kind = _UUID if at > 0 else -1
        elif mark == COLON:
            kind, at = groups(data, i, end)
        if kind < 0 and CLASS[data[i]] == DIGIT:
            kind, at = _numeric(data, i, end, mark)
        if kind >= 0:
            return kind, at
    return _plain_word(data, i, end)


@part
def _put(out: Bytes, o: int, kind: int) -> int:
    for k in range(_EDGE[kind], _EDGE[kind + 1]):
        out[o] = _TEXT[k]
        o += 1
    return o


@part
def _signed(out: Bytes, o: int, first: int) -> bool:
    """Whether the output ends in a sign with nothing left of it that could be subtracted from."""
    if o == first or (out[o - 1] != DASH and out[o - 1] != PLUS):
        return False
    return o - 1 == first or (CLASS[out[o - 2]] == 0 and out[o - 2] != GREATER)


@part
def _path(data: Bytes, i: int, end: int) -> tuple[int, int]:
    """PATH and the end of a path of two slashes and more at the slash at i, or (-1, i)."""
    stop, slashes = i, 0
    while stop < end and not _PATH_STOP[data[stop]]:
        slashes += data[stop] == SLASH
        stop += 1
    while data[stop - 1] == COLON or data[stop - 1] == DOT:
        stop -= 1
    return (_PATH, stop) if slashes >= 2 and stop - i > 3 else (-1, i)


@part
def _listed(out: Bytes, o: int, first: int, kind: int) -> int:
    """Where this placeholder ends when the output ends in it and then ``,`` or `` - ``; otherwise -1."""
    if o - 3 > first and out[o - 1] == SPACE and out[o - 2] == DASH and out[o - 3] == SPACE:
        o -= 3
    elif o - 2 > first and out[o - 1] == SPACE and out[o - 2] == COMMA:
        o -= 2
    elif o - 1 > first and out[o - 1] == COMMA:
        o -= 1
    else:
        return -1
    low = o - (_EDGE[kind + 1] - _EDGE[kind])
    if low < first:
        return -1
    for k in range(o - low):
        if out[low + k] != _TEXT[_EDGE[kind] + k]:
            return -1
    return o


@part
def _put_word(out: Bytes, o: int, data: Bytes, i: int, stop: int) -> int:
    """Copy a word, each run of its digits as <NUM>."""
    while i < stop:
        if CLASS[data[i]] == DIGIT:
            o = _put(out, o, _NUM)
            i = run(data, i, stop, DIGIT)
        else:
            out[o] = data[i]
            o += 1
            i += 1
    return o


@part
def _put_kind(out: Bytes, o: int, first: int, kind: int) -> int:
    """Write a placeholder; one that goes on a list of its kind is in it already."""
    at = _listed(out, o, first, kind)
    return at if at > 0 else _put(out, o, kind)


@part
def _after_clock(data: Bytes, i: int, end: int) -> int:
    """Where a line goes on after its own clock: past brackets, blanks and dashes."""
    while i < end and CLASS[data[i]] == 0 and data[i] < 0x80 and data[i] != LESS:
        i += 1
    return i


@part
def _mask_line(data: Bytes, i: int, end: int, out: Bytes, first: int) -> int:
    o, opened = first, False  # opened: a word has been written
    while i < end:
        seen, stop = 0, i
        while stop < end and CLASS[data[stop]] != 0:
            seen |= CLASS[data[stop]]
            out[o + stop - i] = data[stop]
            stop += 1
        if stop == i:
            kind = -1
            if data[i] == SLASH and (o == first or _BEFORE_PATH[out[o - 1]]):
                kind, stop = _path(data, i, end)
            if kind >= 0:
                o, i, opened = _put_kind(out, o, first, kind), stop, True
                continue
            out[o] = data[i]
            o, i = o + 1, i + 1
            continue
        grouped = stop < end and (data[stop] == COLON or data[stop] == DASH)
        if (seen & DIGIT) == 0 and (seen != HEX_LETTER or not grouped):
            o, i, opened = o + stop - i, stop, True
            continue
        kind, stop = _classify(data, i, end)
        if kind == _TIME and not opened:
            # a line's own clock at its head says nothing that the line's time does not say
            o, i, opened = first, _after_clock(data, stop, end), True
            continue
        if kind == _NUM and _signed(out, o, first):
            o -= 1
        o = _put_kind(out, o, first, kind) if kind >= 0 else _put_word(out, o, data, i, stop)
        i, opened = stop, True
    return o


@compiled
def _mask_lines(data: Bytes, offsets: NDArray[np.int64], out: Bytes, ends: NDArray[np.int64]) -> None:
    # a literal 0 for the first line's place would be compiled as a case of its own
    for line in range(len(offsets) - 1):
        ends[line + 1] = _mask_line(data, offsets[line], offsets[line + 1], out, ends[line])
