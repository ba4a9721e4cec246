"""Decimal numbers of a JSON array to float64, each to the bit that Python's ``float`` gives, without an object for it.

A decimal of few digits is one exact number times or over another, and so rounded once (Clinger, "How to read floating
point numbers accurately", 1990). Others take the product of their digits and a power of five in 128 bits, which
settles all of up to 19 digits (Lemire, "Number parsing at a gigabyte per second", 2021, section 5); what it does not
settle, and what is no number or null, is left to the caller.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from features.compiling import compiled, part

_EXACT = np.uint64(1 << 53)
_TENS = np.array([10.0**power for power in range(23)])  # all exact
_LOW, _HIGH = -342, 308  # powers of ten beyond which every number of 19 digits is zero or infinite
_NONE, _ONE, _TEN = np.uint64(0), np.uint64(1), np.uint64(10)
_HALF = np.uint64(32)
_LOWER = np.uint64(0xFFFFFFFF)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_HIDDEN = np.uint64(1 << 52)
_PRECISE = _ALL >> np.uint64(55)
_NULL = np.frombuffer(b"null", dtype=np.uint8)


def _powers_of_five() -> Any:
    """uint64 [powers, 2]: the leading 128 bits of each, cut off; of the inverse of a negative one's, rounded up."""
    out = np.empty((_HIGH - _LOW + 1, 2), dtype=np.uint64)
    for power in range(_LOW, _HIGH + 1):
        if power < 0:
            five = 5**-power
            bits = (1 << (five.bit_length() + 127)) // five + 1
        else:
            five = 5**power
            bits = five << 128
        bits >>= bits.bit_length() - 128
        out[power - _LOW] = bits >> 64, bits & ((1 << 64) - 1)
    return out


_FIVES = _powers_of_five()


@part
def _product(one: Any, other: Any) -> Any:
    """The upper and the lower 64 bits of the product of two uint64."""
    small, large = one & _LOWER, one >> _HALF
    short, tall = other & _LOWER, other >> _HALF
    lowest = small * short
    cross = large * short + (lowest >> _HALF)
    middle = small * tall + (cross & _LOWER)
    return large * tall + (cross >> _HALF) + (middle >> _HALF), (middle << _HALF) | (lowest & _LOWER)


@part
def _nearest(digits: Any, power: Any) -> Any:
    """Bits of the float64 nearest to uint64 ``digits`` times ten to the power; 0 where this can't tell."""
    if power < _LOW or power > _HIGH:
        return np.uint64(0)
    shift = np.int64(0)
    for step in (32, 16, 8, 4, 2, 1):
        if digits >> np.uint64(64 - step) == 0:
            digits <<= np.uint64(step)
            shift += step
    upper, lower = _product(digits, _FIVES[power - _LOW, 0])
    if upper & _PRECISE == _PRECISE:
        more, _ = _product(digits, _FIVES[power - _LOW, 1])
        lower += more
        if more > lower:
            upper += _ONE
        if lower == _ALL and (power < -27 or power > 55):
            return np.uint64(0)
    top = upper >> np.uint64(63)
    cut = top + np.uint64(9)
    mantissa = upper >> cut
    exponent = ((217_706 * power) >> 16) + 63 + np.int64(top) - shift + 1023
    if exponent <= 0 or exponent >= 2046:  # below the normal numbers, or near the end of all
        return np.uint64(0)
    if lower <= _ONE and -4 <= power <= 23 and mantissa & np.uint64(3) == _ONE and mantissa << cut == upper:
        mantissa &= ~_ONE  # just in the middle: to the even one
    mantissa = (mantissa + (mantissa & _ONE)) >> _ONE
    if mantissa >= _HIDDEN << _ONE:
        mantissa = _HIDDEN
        exponent += 1
    return (mantissa & ~_HIDDEN) | np.uint64(exponent) << np.uint64(52)


@part
def _is_null(text: Any, place: Any, end: Any) -> Any:
    same = place + 4 <= end
    for offset in range(4):
        same = same and text[place + offset] == _NULL[offset]
    return same


@part
def _zeros(text: Any, place: Any, end: Any) -> Any:
    """How many zeros stand before the first other digit."""
    count = 0
    while place < end and (text[place] == 48 or text[place] == 46):
        count += text[place] == 48
        place += 1
    return count


@compiled
def read(text: Any, most: Any) -> Any:  # noqa: C901, PLR0911, PLR0912, PLR0915  # a call costs more than a number
    """Numbers between commas, without blanks.

    Parameters
    ----------
    text
        uint8 [bytes], what stands between an array's brackets.
    most
        How many numbers to expect.

    Returns
    -------
    values
        float64 [most], NaN for a null, and where there are fewer numbers.
    count
        How many there are; -1 when something in the text must be read in another way.
    """
    values = np.full(most, np.nan)
    bits = values.view(np.uint64)
    end = len(text)
    place, count = 0, 0
    while place < end:
        if count == most:
            return values, -1
        byte = text[place]
        if byte == 110:  # n
            if not _is_null(text, place, end):
                return values, -1
            place += 4
        else:
            negative = byte == 45
            if negative:
                place += 1
            first = place
            digits = np.uint64(0)
            while place < end and 48 <= text[place] <= 57:
                digits = digits * _TEN + np.uint64(text[place] - 48)
                place += 1
            seen = place - first
            if seen == 0 or (seen > 1 and text[first] == 48):
                return values, -1
            power = 0
            if place < end and text[place] == 46:
                place += 1
                point = place
                while place < end and 48 <= text[place] <= 57:
                    digits = digits * _TEN + np.uint64(text[place] - 48)
                    place += 1
                power = point - place
                if power == 0:
                    return values, -1
            if seen - power > 19 and seen - power - _zeros(text, first, place) > 19:
                return values, -1
            if place < end and (text[place] == 101 or text[place] == 69):  # e, E
                place += 1
                down = place < end and text[place] == 45
                if place < end and (text[place] == 45 or text[place] == 43):
                    place += 1
                first = place
                said = 0
                while place < end and 48 <= text[place] <= 57 and place - first < 5:
                    said = said * 10 + (text[place] - 48)
                    place += 1
                if place == first or place - first == 5:
                    return values, -1
                power += -said if down else said
            if digits <= _EXACT and -22 <= power <= 22:
                value = np.float64(np.int64(digits))
                if power < 0:
                    value /= _TENS[-power]
                elif power > 0:
                    value *= _TENS[power]
                values[count] = -value if negative else value
            elif digits == _NONE:
                values[count] = -0.0 if negative else 0.0
            else:
                found = _nearest(digits, power)
                if found == _NONE:
                    return values, -1
                bits[count] = found | np.uint64(negative) << np.uint64(63)
        count += 1
        if place < end:
            if text[place] != 44 or place + 1 == end:  # a comma
                return values, -1
            place += 1
    return values, count
