"""What an address, a time, a quantity or a number looks like, byte by byte; each gives where it ends, or -1.

Compiled. Used by `features.mask_kernel` alone, whose compiled code holds a copy of this: touch that file too after
a change here, or numba's cache keeps the old one.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]

# what a byte can be part of
DIGIT, HEX_LETTER, LETTER = 1, 2, 4
CLASS = np.zeros(256, dtype=np.uint8)
CLASS[list(b"0123456789")] = DIGIT
CLASS[list(b"abcdefABCDEF")] = HEX_LETTER
CLASS[list(b"ghijklmnopqrstuvwxyzGHIJKLMNOPQRSTUVWXYZ")] = LETTER
LEAST_HEX = 6  # letters and digits; shorter ones are too often words: 3d, a1, be2net
# kinds that are told apart here
PCI, ADDR = 6, 7


@numba.njit(cache=True)
def is_a(data: Bytes, i: int, end: int, what: int) -> bool:
    """Whether a byte of these classes stands at i."""
    return i < end and (CLASS[data[i]] & what) != 0


@numba.njit(cache=True)
def run(data: Bytes, i: int, end: int, what: int) -> int:
    """Where the run of bytes of these classes that begins at i ends."""
    while i < end and (CLASS[data[i]] & what) != 0:
        i += 1
    return i


@numba.njit(cache=True)
def digits(data: Bytes, i: int, end: int, least: int, most: int) -> int:
    """The end of a run of that many digits at i, or -1."""
    stop = run(data, i, end, DIGIT)
    return stop if least <= stop - i <= most else -1


@numba.njit(cache=True)
def uuid(data: Bytes, i: int, end: int) -> int:
    """8-4-4-4-12 hex digits."""
    for length in (8, 4, 4, 4, 12):
        stop = run(data, i, end, DIGIT | HEX_LETTER)
        if stop - i != length:
            return -1
        if length == 12:
            return -1 if is_a(data, stop, end, LETTER) else stop
        if stop >= end or data[stop] != ord("-"):
            return -1
        i = stop + 1
    return -1


@numba.njit(cache=True)
def groups(data: Bytes, i: int, end: int) -> tuple[int, int]:
    """Hex groups parted by colons at i: what they are and where they end, or (-1, i)."""
    count, numeric, first, second = 0, False, 0, 0
    at = i
    while True:
        stop = run(data, at, end, DIGIT | HEX_LETTER)
        length = stop - at
        if length == 0 or (length > 4 and count > 0) or length > 8 or is_a(data, stop, end, LETTER):
            return -1, i
        for k in range(at, stop):
            numeric = numeric or CLASS[data[k]] == DIGIT
        count += 1
        first = length if count == 1 else first
        second = length if count == 2 else second
        step = stop + 1 if stop < end and data[stop] == ord(":") else stop
        if step > stop and step < end and data[step] == ord(":"):
            step += 1
        if step == stop or not is_a(data, step, end, DIGIT | HEX_LETTER):
            break
        at = step
    if not numeric and count < 6:
        return -1, i
    if count >= 4:
        return (ADDR, stop) if first <= 4 else (-1, i)
    function = -1
    if stop + 1 < end and data[stop] == ord(".") and ord("0") <= data[stop + 1] <= ord("7"):
        function = -1 if is_a(data, stop + 2, end, 7) else stop + 2
    if count == 3 and first >= 4 and second == 2 and length == 2:
        return PCI, max(function, stop)
    if count == 2 and first == 2 and length == 2 and function > 0:
        return PCI, function
    return -1, i


@numba.njit(cache=True)
def clock(data: Bytes, i: int, end: int) -> int:
    """The end of 10:15:00 or 10.15.00 with fraction and zone at i, or -1."""
    hour = digits(data, i, end, 1, 2)
    if hour < 0 or hour >= end or (data[hour] != ord(":") and data[hour] != ord(".")):
        return -1
    minute = digits(data, hour + 1, end, 2, 2)
    if minute < 0 or minute >= end or data[minute] != data[hour]:
        return -1
    at = digits(data, minute + 1, end, 2, 2)
    if at < 0:
        return -1
    if at < end and (data[at] == ord(".") or data[at] == ord(",")) and is_a(data, at + 1, end, DIGIT):
        at = run(data, at + 1, end, DIGIT)
    if at < end and data[at] == ord("Z"):
        at += 1
    elif at < end and (data[at] == ord("+") or data[at] == ord("-")):
        zone = run(data, at + 1, end, DIGIT)
        if zone - at == 3 and zone < end and data[zone] == ord(":") and digits(data, zone + 1, end, 2, 2) > 0:
            at = zone + 3
        elif zone - at == 5:
            at = zone
    return -1 if is_a(data, at, end, 7) else at


@numba.njit(cache=True)
def time(data: Bytes, i: int, end: int) -> int:
    """The end of a date, a clock or both at i, or -1."""
    year = digits(data, i, end, 4, 4)
    if year < 0:
        at = clock(data, i, end)
        return at if at > 0 and data[run(data, i, end, DIGIT)] == ord(":") else -1
    if year >= end or (data[year] != ord("-") and data[year] != ord("/") and data[year] != ord(".")):
        return -1
    month = digits(data, year + 1, end, 2, 2)
    if month < 0 or month >= end or data[month] != data[year]:
        return -1
    day = digits(data, month + 1, end, 2, 2)
    if day < 0:
        return -1
    if day < end and (data[day] == ord("T") or data[day] == ord(" ") or data[day] == ord("-")):
        at = clock(data, day + 1, end)
        if at > 0:
            return at
    return -1 if is_a(data, day, end, 7) else day


@numba.njit(cache=True)
def ip(data: Bytes, i: int, end: int) -> int:
    """Four groups of up to three digits, with a port or without."""
    for part in range(4):
        i = digits(data, i, end, 1, 3)
        if i < 0:
            return -1
        if part < 3:
            if i >= end or data[i] != ord("."):
                return -1
            i += 1
    if i + 1 < end and data[i] == ord(":") and is_a(data, i + 1, end, DIGIT):
        i = run(data, i + 1, end, DIGIT)
    return -1 if is_a(data, i, end, 7) else i


@numba.njit(cache=True)
def unit(data: Bytes, i: int, end: int) -> int:
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
def quantity(data: Bytes, i: int, end: int) -> int:
    """Numbers each with a unit: 300ms, 1m30.5s."""
    while True:
        stop = run(data, i, end, DIGIT)
        if stop + 1 < end and data[stop] == ord(".") and is_a(data, stop + 1, end, DIGIT):
            stop = run(data, stop + 1, end, DIGIT)
        stop = unit(data, stop, end)
        if stop < 0 or not is_a(data, stop, end, 7):
            return stop
        if not is_a(data, stop, end, DIGIT):
            return -1
        i = stop


@numba.njit(cache=True)
def number(data: Bytes, i: int, end: int) -> int:
    """The end of a number at i; -1 where a whole one is the head of a word (12it), not where a fraction is (1.5it)."""
    whole = stop = run(data, i, end, DIGIT)
    while stop + 1 < end and data[stop] == ord(".") and is_a(data, stop + 1, end, DIGIT):
        stop = run(data, stop + 1, end, DIGIT)
    if stop + 1 < end and (data[stop] == ord("e") or data[stop] == ord("E")):
        at = stop + 2 if data[stop + 1] == ord("-") or data[stop + 1] == ord("+") else stop + 1
        after = run(data, at, end, DIGIT)
        # 00105e94 is an address; 1e10, 1.5e10 and 105e-9 are not
        exponent = at > stop + 1 or stop > whole or after - i < LEAST_HEX
        if exponent and after > at and not is_a(data, after, end, 7):
            return after
    return stop if stop > whole or not is_a(data, stop, end, 7) else -1
