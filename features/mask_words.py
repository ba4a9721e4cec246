"""What an address, a time, a quantity or a number looks like, byte by byte; each gives where it ends, or -1.

Compiled, into `features.mask_kernel` alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from features.compiling import part

Bytes = NDArray[np.uint8]

# what a byte can be part of
DIGIT, HEX_LETTER, LETTER = 1, 2, 4
CLASS = np.zeros(256, dtype=np.uint8)
CLASS[list(b"0123456789")] = DIGIT
CLASS[list(b"abcdefABCDEF")] = HEX_LETTER
CLASS[list(b"ghijklmnopqrstuvwxyzGHIJKLMNOPQRSTUVWXYZ")] = LETTER
LEAST_HEX = 6  # letters and digits; shorter ones are too often words: 3d, a1, be2net
# bytes by name: each ord() in compiled code costs a tenth of a second of compiling
SPACE = ord(" ")
PLUS = ord("+")
COMMA = ord(",")
DASH = ord("-")
DOT = ord(".")
SLASH = ord("/")
ZERO = ord("0")
SEVEN = ord("7")
COLON = ord(":")
LESS = ord("<")
GREATER = ord(">")
UPPER_E = ord("E")
UPPER_T = ord("T")
UPPER_X = ord("X")
UPPER_Z = ord("Z")
LOWER_E = ord("e")
LOWER_I = ord("i")
LOWER_S = ord("s")
LOWER_X = ord("x")
# what a letter can be in a unit: s m h d B alone, n u m before s, k K M G T before i and B or b
_WHOLE, _SMALL, _LARGE, _OF_BYTES = 1, 2, 4, 8
_IN_UNIT = np.zeros(256, dtype=np.uint8)
for _letters, _role in ((b"smhdB", _WHOLE), (b"num", _SMALL), (b"kKMGT", _LARGE), (b"Bb", _OF_BYTES)):
    _IN_UNIT[list(_letters)] |= _role
# kinds that are told apart here
PCI, ADDR = 6, 7


@part
def is_a(data: Bytes, i: int, end: int, what: int) -> bool:
    """Whether a byte of these classes stands at i."""
    return i < end and (CLASS[data[i]] & what) != 0


@part
def run(data: Bytes, i: int, end: int, what: int) -> int:
    """Where the run of bytes of these classes that begins at i ends."""
    while i < end and (CLASS[data[i]] & what) != 0:
        i += 1
    return i


@part
def digits(data: Bytes, i: int, end: int, least: int, most: int) -> int:
    """The end of a run of that many digits at i, or -1."""
    stop = run(data, i, end, DIGIT)
    return stop if least <= stop - i <= most else -1


@part
def uuid(data: Bytes, i: int, end: int) -> int:
    """8-4-4-4-12 hex digits."""
    for length in (8, 4, 4, 4, 12):
        stop = run(data, i, end, DIGIT | HEX_LETTER)
        if stop - i != length:
            return -1
        if length == 12:
            return -1 if is_a(data, stop, end, LETTER) else stop
        if stop >= end or data[stop] != DASH:
            return -1
        i = stop + 1
    return -1


@part
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
        step = stop + 1 if stop < end and data[stop] == COLON else stop
        if step > stop and step < end and data[step] == COLON:
            step += 1
        if step == stop or not is_a(data, step, end, DIGIT | HEX_LETTER):
            break
        at = step
    if not numeric and count < 6:
        return -1, i
    if count >= 4:
        return (ADDR, stop) if first <= 4 else (-1, i)
    function = -1
    if stop + 1 < end and data[stop] == DOT and ZERO <= data[stop + 1] <= SEVEN:
        function = -1 if is_a(data, stop + 2, end, 7) else stop + 2
    if count == 3 and first >= 4 and second == 2 and length == 2:
        return PCI, max(function, stop)
    if count == 2 and first == 2 and length == 2 and function > 0:
        return PCI, function
    return -1, i


@part
def clock(data: Bytes, i: int, end: int) -> int:
    """The end of 10:15:00 or 10.15.00 with fraction and zone at i, or -1."""
    hour = digits(data, i, end, 1, 2)
    if hour < 0 or hour >= end or (data[hour] != COLON and data[hour] != DOT):
        return -1
    minute = digits(data, hour + 1, end, 2, 2)
    if minute < 0 or minute >= end or data[minute] != data[hour]:
        return -1
    at = digits(data, minute + 1, end, 2, 2)
    if at < 0:
        return -1
    if at < end and (data[at] == DOT or data[at] == COMMA) and is_a(data, at + 1, end, DIGIT):
        at = run(data, at + 1, end, DIGIT)
    if at < end and data[at] == UPPER_Z:
        at += 1
    elif at < end and (data[at] == PLUS or data[at] == DASH):
        zone = run(data, at + 1, end, DIGIT)
        if zone - at == 3 and zone < end and data[zone] == COLON and digits(data, zone + 1, end, 2, 2) > 0:
            at = zone + 3
        elif zone - at == 5:
            at = zone
    return -1 if is_a(data, at, end, 7) else at


@part
def time(data: Bytes, i: int, end: int) -> int:
    """The end of a date, a clock or both at i, or -1."""
    year = digits(data, i, end, 4, 4)
    if year < 0:
        at = clock(data, i, end)
        return at if at > 0 and data[run(data, i, end, DIGIT)] == COLON else -1
    if year >= end or (data[year] != DASH and data[year] != SLASH and data[year] != DOT):
        return -1
    month = digits(data, year + 1, end, 2, 2)
    if month < 0 or month >= end or data[month] != data[year]:
        return -1
    day = digits(data, month + 1, end, 2, 2)
    if day < 0:
        return -1
    if day < end and (data[day] == UPPER_T or data[day] == SPACE or data[day] == DASH):
        at = clock(data, day + 1, end)
        if at > 0:
            return at
    return -1 if is_a(data, day, end, 7) else day


@part
def ip(data: Bytes, i: int, end: int) -> int:
    """Four groups of up to three digits, with a port or without."""
    for group in range(4):
        i = digits(data, i, end, 1, 3)
        if i < 0:
            return -1
        if group < 3:
            if i >= end or data[i] != DOT:
                return -1
            i += 1
    if i + 1 < end and data[i] == COLON and is_a(data, i + 1, end, DIGIT):
        i = run(data, i + 1, end, DIGIT)
    return -1 if is_a(data, i, end, 7) else i


@part
def unit(data: Bytes, i: int, end: int) -> int:
    """The end of a unit of time or bytes at i, or -1."""
    if i >= end:
        return -1
    if data[i] == 0xC2 and i + 2 < end and data[i + 1] == 0xB5 and data[i + 2] == LOWER_S:  # microseconds
        return i + 3
    role = _IN_UNIT[data[i]]
    if i + 1 < end and data[i + 1] == LOWER_S and (role & _SMALL) != 0:
        return i + 2
    if (role & _WHOLE) != 0:
        return i + 1
    if (role & _LARGE) == 0:
        return -1
    i += 1
    if i < end and data[i] == LOWER_I:
        i += 1
    return i + 1 if i < end and (_IN_UNIT[data[i]] & _OF_BYTES) != 0 else i


@part
def quantity(data: Bytes, i: int, end: int) -> int:
    """Numbers each with a unit: 300ms, 1m30.5s."""
    while True:
        stop = run(data, i, end, DIGIT)
        if stop + 1 < end and data[stop] == DOT and is_a(data, stop + 1, end, DIGIT):
            stop = run(data, stop + 1, end, DIGIT)
        stop = unit(data, stop, end)
        if stop < 0 or not is_a(data, stop, end, 7):
            return stop
        if not is_a(data, stop, end, DIGIT):
            return -1
        i = stop


@part
def number(data: Bytes, i: int, end: int) -> int:
    """The end of a number at i; -1 where a whole one is the head of a word (12it), not where a fraction is (1.5it)."""
    whole = stop = run(data, i, end, DIGIT)
    while stop + 1 < end and data[stop] == DOT and is_a(data, stop + 1, end, DIGIT):
        stop = run(data, stop + 1, end, DIGIT)
    if stop + 1 < end and (data[stop] == LOWER_E or data[stop] == UPPER_E):
        at = stop + 2 if data[stop + 1] == DASH or data[stop + 1] == PLUS else stop + 1
        after = run(data, at, end, DIGIT)
        # 00105e94 is an address; 1e10, 1.5e10 and 105e-9 are not
        exponent = at > stop + 1 or stop > whole or after - i < LEAST_HEX
        if exponent and after > at and not is_a(data, after, end, 7):
            return after
    return stop if stop > whole or not is_a(data, stop, end, 7) else -1
