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
    eyJhbGciOiJIUzI1NiJ9, x2k4q9                          <ID>     three and more runs of digits, two in a long word
    eth0, nvme0n1                                         eth<NUM>, nvme<NUM>n<NUM>
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

_Bytes = NDArray[np.uint8]

_NAMES = (b"<NUM>", b"<HEX>", b"<QTY>", b"<ID>", b"<IP>", b"<TIME>", b"<PCI>", b"<ADDR>", b"<UUID>")
_NUM, _HEX, _QTY, _ID, _IP, _TIME, _PCI, _ADDR, _UUID = range(9)
_TEXT = np.frombuffer(b"".join(_NAMES), dtype=np.uint8)
_EDGE = np.cumsum([0, *map(len, _NAMES)])

# what a byte can be part of
_DIGIT, _HEX_LETTER, _LETTER = 1, 2, 4
_CLASS = np.zeros(256, dtype=np.uint8)
_CLASS[list(b"0123456789")] = _DIGIT
_CLASS[list(b"abcdefABCDEF")] = _HEX_LETTER
_CLASS[list(b"ghijklmnopqrstuvwxyzGHIJKLMNOPQRSTUVWXYZ")] = _LETTER
_BATCH_BYTES = 1 << 20
_LONG_ID = 16  # a word as long as this needs only two runs of digits
_LEAST_HEX = 6  # letters and digits; shorter ones are too often words: 3d, a1, be2net


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


@numba.njit(cache=True)
def _is(data: _Bytes, i: int, end: int, what: int) -> bool:
    return i < end and (_CLASS[data[i]] & what) != 0


@numba.njit(cache=True)
def _run(data: _Bytes, i: int, end: int, what: int) -> int:
    """Where the run of bytes of these classes that begins at i ends."""
    while i < end and (_CLASS[data[i]] & what) != 0:
        i += 1
    return i


@numba.njit(cache=True)
def _digits(data: _Bytes, i: int, end: int, least: int, most: int) -> int:
    """The end of a run of that many digits at i, or -1."""
    stop = _run(data, i, end, _DIGIT)
    return stop if least <= stop - i <= most else -1


@numba.njit(cache=True)
def _uuid(data: _Bytes, i: int, end: int) -> int:
    for length in (8, 4, 4, 4, 12):
        stop = _run(data, i, end, _DIGIT | _HEX_LETTER)
        if stop - i != length:
            return -1
        if length == 12:
            return -1 if _is(data, stop, end, _LETTER) else stop
        if stop >= end or data[stop] != ord("-"):
            return -1
        i = stop + 1
    return -1


@numba.njit(cache=True)
def _groups(data: _Bytes, i: int, end: int) -> tuple[int, int]:
    """Hex groups parted by colons at i: what they are and where they end, or (-1, i)."""
    count, digits, first, second = 0, False, 0, 0
    at = i
    while True:
        stop = _run(data, at, end, _DIGIT | _HEX_LETTER)
        length = stop - at
        if length == 0 or (length > 4 and count > 0) or length > 8 or _is(data, stop, end, _LETTER):
            return -1, i
        for k in range(at, stop):
            digits = digits or _CLASS[data[k]] == _DIGIT
        count += 1
        first = length if count == 1 else first
        second = length if count == 2 else second
        step = stop + 1 if stop < end and data[stop] == ord(":") else stop
        if step > stop and step < end and data[step] == ord(":"):
            step += 1
        if step == stop or not _is(data, step, end, _DIGIT | _HEX_LETTER):
            break
        at = step
    if not digits and count < 6:
        return -1, i
    if count >= 4:
        return (_ADDR, stop) if first <= 4 else (-1, i)
    function = -1
    if stop + 1 < end and data[stop] == ord(".") and ord("0") <= data[stop + 1] <= ord("7"):
        function = -1 if _is(data, stop + 2, end, 7) else stop + 2
    if count == 3 and first >= 4 and second == 2 and length == 2:
        return _PCI, max(function, stop)
    if count == 2 and first == 2 and length == 2 and function > 0:
        return _PCI, function
    return -1, i


@numba.njit(cache=True)
def _clock(data: _Bytes, i: int, end: int) -> int:
    """The end of 10:15:00 or 10.15.00 with fraction and zone at i, or -1."""
    hour = _digits(data, i, end, 1, 2)
    if hour < 0 or hour >= end or (data[hour] != ord(":") and data[hour] != ord(".")):
        return -1
    minute = _digits(data, hour + 1, end, 2, 2)
    if minute < 0 or minute >= end or data[minute] != data[hour]:
        return -1
    at = _digits(data, minute + 1, end, 2, 2)
    if at < 0:
        return -1
    if at < end and (data[at] == ord(".") or data[at] == ord(",")) and _is(data, at + 1, end, _DIGIT):
        at = _run(data, at + 1, end, _DIGIT)
    if at < end and data[at] == ord("Z"):
        at += 1
    elif at < end and (data[at] == ord("+") or data[at] == ord("-")):
        zone = _run(data, at + 1, end, _DIGIT)
        if zone - at == 3 and zone < end and data[zone] == ord(":") and _digits(data, zone + 1, end, 2, 2) > 0:
            at = zone + 3
        elif zone - at == 5:
            at = zone
    return -1 if _is(data, at, end, 7) else at


@numba.njit(cache=True)
def _time(data: _Bytes, i: int, end: int) -> int:
    """The end of a date, a clock or both at i, or -1."""
    year = _digits(data, i, end, 4, 4)
    if year < 0:
        at = _clock(data, i, end)
        return at if at > 0 and data[_run(data, i, end, _DIGIT)] == ord(":") else -1
    if year >= end or (data[year] != ord("-") and data[year] != ord("/") and data[year] != ord(".")):
        return -1
    month = _digits(data, year + 1, end, 2, 2)
    if month < 0 or month >= end or data[month] != data[year]:
        return -1
    day = _digits(data, month + 1, end, 2, 2)
    if day < 0:
        return -1
    if day < end and (data[day] == ord("T") or data[day] == ord(" ") or data[day] == ord("-")):
        at = _clock(data, day + 1, end)
        if at > 0:
            return at
    return -1 if _is(data, day, end, 7) else day


@numba.njit(cache=True)
def _ip(data: _Bytes, i: int, end: int) -> int:
    for part in range(4):
        i = _digits(data, i, end, 1, 3)
        if i < 0:
            return -1
        if part < 3:
            if i >= end or data[i] != ord("."):
                return -1
            i += 1
    if i + 1 < end and data[i] == ord(":") and _is(data, i + 1, end, _DIGIT):
        i = _run(data, i + 1, end, _DIGIT)
    return -1 if _is(data, i, end, 7) else i


@numba.njit(cache=True)
def _unit(data: _Bytes, i: int, end: int) -> int:
    """The end of a unit of time or bytes at i, or -1."""
    if i >= end:
        return -1
    byte = data[i]
    if byte == 0xC2 and i + 2 < end and data[i + 1] == 0xB5 and data[i + 2] == ord("s"):
        return i + 3
    if i + 1 < end and data[i + 1] == ord("s") and (byte == ord("n") or byte == ord("u") or byte == ord("m")):
        return i + 2
    if byte == ord("s") or byte == ord("m") or byte == ord("h") or byte == ord("d") or byte == ord("B"):
        return i + 1
    if byte == ord("k") or byte == ord("K") or byte == ord("M") or byte == ord("G") or byte == ord("T"):
        i += 1
        if i < end and data[i] == ord("i"):
            i += 1
        if i < end and (data[i] == ord("B") or data[i] == ord("b")):
            i += 1
        return i
    return -1


@numba.njit(cache=True)
def _quantity(data: _Bytes, i: int, end: int) -> int:
    while True:
        stop = _run(data, i, end, _DIGIT)
        if stop + 1 < end and data[stop] == ord(".") and _is(data, stop + 1, end, _DIGIT):
            stop = _run(data, stop + 1, end, _DIGIT)
        stop = _unit(data, stop, end)
        if stop < 0 or not _is(data, stop, end, 7):
            return stop
        if not _is(data, stop, end, _DIGIT):
            return -1
        i = stop


@numba.njit(cache=True)
def _number(data: _Bytes, i: int, end: int) -> int:
    """The end of a number at i; -1 where a whole one is the head of a word (12it), not where a fraction is (1.5it)."""
    whole = stop = _run(data, i, end, _DIGIT)
    while stop + 1 < end and data[stop] == ord(".") and _is(data, stop + 1, end, _DIGIT):
        stop = _run(data, stop + 1, end, _DIGIT)
    if stop + 1 < end and (data[stop] == ord("e") or data[stop] == ord("E")):
        at = stop + 2 if data[stop + 1] == ord("-") or data[stop + 1] == ord("+") else stop + 1
        after = _run(data, at, end, _DIGIT)
        if after > at and not _is(data, after, end, 7):
            return after
    return stop if stop > whole or not _is(data, stop, end, 7) else -1


@numba.njit(cache=True)
def _plain_word(data: _Bytes, i: int, end: int) -> tuple[int, int]:
    """HEX, ID or -1 for the word at i, and where it ends."""
    stop, digits, runs, letters, other = i, 0, 0, 0, 0
    while stop < end and _CLASS[data[stop]] != 0:
        if _CLASS[data[stop]] == _DIGIT:
            digits += 1
            if stop == i or _CLASS[data[stop - 1]] != _DIGIT:
                runs += 1
        elif _CLASS[data[stop]] == _HEX_LETTER:
            letters += 1
        else:
            other += 1
        stop += 1
    if digits and other == 0 and letters and digits + letters >= _LEAST_HEX:
        return _HEX, stop
    prefixed = data[i] == ord("0") and stop - i > 2 and (data[i + 1] == ord("x") or data[i + 1] == ord("X"))
    if prefixed and other == 1:
        return _HEX, stop
    if letters + other > 0 and (runs >= 3 or (runs == 2 and stop - i >= _LONG_ID)):
        return _ID, stop
    return -1, stop


@numba.njit(cache=True)
def _numeric(data: _Bytes, i: int, end: int, mark: int) -> tuple[int, int]:
    """What begins with the digit at i and where it ends, or (-1, i); mark is the byte after its hex digits."""
    if mark == ord(":") or mark == ord("-") or mark == ord("/") or mark == ord("."):
        at = _time(data, i, end)
        if at > 0:
            return _TIME, at
    if mark == ord("."):
        at = _ip(data, i, end)
        if at > 0:
            return _IP, at
    at = _quantity(data, i, end)
    if at > 0:
        return _QTY, at
    at = _number(data, i, end)
    return (_NUM, at) if at > 0 else (-1, i)


@numba.njit(cache=True)
def _classify(data: _Bytes, i: int, end: int) -> tuple[int, int]:
    """What the word at i is (-1: only its digits are masked), and where that ends."""
    if (_CLASS[data[i]] & (_DIGIT | _HEX_LETTER)) != 0:
        stop = _run(data, i, end, _DIGIT | _HEX_LETTER)
        mark = data[stop] if stop < end else 0
        kind, at = -1, i
        if mark == ord("-") and stop - i == 8:
            at = _uuid(data, i, end)
            kind = _UUID if at > 0 else -1
        elif mark == ord(":"):
            kind, at = _groups(data, i, end)
        if kind < 0 and _CLASS[data[i]] == _DIGIT:
            kind, at = _numeric(data, i, end, mark)
        if kind >= 0:
            return kind, at
    return _plain_word(data, i, end)


@numba.njit(cache=True)
def _put(out: _Bytes, o: int, kind: int) -> int:
    for k in range(_EDGE[kind], _EDGE[kind + 1]):
        out[o] = _TEXT[k]
        o += 1
    return o


@numba.njit(cache=True)
def _signed(out: _Bytes, o: int, first: int) -> bool:
    """Whether the output ends in a sign with nothing left of it that could be subtracted from."""
    if o == first or (out[o - 1] != ord("-") and out[o - 1] != ord("+")):
        return False
    return o - 1 == first or (_CLASS[out[o - 2]] == 0 and out[o - 2] != ord(">"))


@numba.njit(cache=True)
def _put_word(out: _Bytes, o: int, data: _Bytes, i: int, stop: int) -> int:
    """Copy a word, each run of its digits as <NUM>."""
    while i < stop:
        if _CLASS[data[i]] == _DIGIT:
            o = _put(out, o, _NUM)
            i = _run(data, i, stop, _DIGIT)
        else:
            out[o] = data[i]
            o += 1
            i += 1
    return o


@numba.njit(cache=True)
def _after_clock(data: _Bytes, i: int, end: int) -> int:
    """Where a line goes on after its own clock: past brackets, blanks and dashes."""
    while i < end and _CLASS[data[i]] == 0 and data[i] < 0x80 and data[i] != ord("<"):
        i += 1
    return i


@numba.njit(cache=True)
def _mask_line(data: _Bytes, i: int, end: int, out: _Bytes, first: int) -> int:
    o, opened = first, False  # opened: a word has been written
    while i < end:
        seen, stop = 0, i
        while stop < end and _CLASS[data[stop]] != 0:
            seen |= _CLASS[data[stop]]
            out[o + stop - i] = data[stop]
            stop += 1
        if stop == i:
            out[o] = data[i]
            o, i = o + 1, i + 1
            continue
        grouped = stop < end and (data[stop] == ord(":") or data[stop] == ord("-"))
        if (seen & _DIGIT) == 0 and (seen != _HEX_LETTER or not grouped):
            o, i, opened = o + stop - i, stop, True
            continue
        kind, stop = _classify(data, i, end)
        if kind == _TIME and not opened:
            # a line's own clock at its head says nothing that the line's time does not say
            o, i, opened = first, _after_clock(data, stop, end), True
            continue
        if kind == _NUM and _signed(out, o, first):
            o -= 1
        o = _put(out, o, kind) if kind >= 0 else _put_word(out, o, data, i, stop)
        i, opened = stop, True
    return o


@numba.njit(cache=True)
def _mask_lines(data: _Bytes, offsets: NDArray[np.int64], out: _Bytes, ends: NDArray[np.int64]) -> None:
    o = 0
    for line in range(len(offsets) - 1):
        o = _mask_line(data, offsets[line], offsets[line + 1], out, o)
        ends[line + 1] = o
