"""A Prometheus answer's samples in one compiled pass over its bytes; what is not of the usual form is left to others.

    {"status":"success","data":{"resultType":"matrix","result":[
    {"metric":{"__name__":"m"},"values":[[1767225600,"1"],[1767225615.5,"NaN"]]},...]}}

A cluster's window is ten million samples: as Python's lists and text they cost more than the server's work. Numbers
are read as Python's ``float`` reads them, bit for bit: a decimal of up to 53 bits times or over a power of ten that
is exact itself is rounded once (Clinger 1990). For one of up to 18 digits what the rounded result lacks is found by an
exact product (Dekker 1971) and added; where that is too near to the middle of two numbers, and for any other text,
``float`` is asked.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from features.compiling import compiled, part

_LEAST_SAMPLE = 12  # bytes of a sample and what parts it from the next
_HEAD = b'"result":['
_HEAD_WITHIN = 400  # bytes: a server says its status before its data
_BAD = -1
_EXACT = 2**53
_TENS = np.array([10.0**power for power in range(23)])  # all exact
_FEW = 4096
_DIGITS = 18  # of whole numbers below 2^63
_SPLIT = 2.0**27 + 1
_MIDDLE = 1e-6  # of half the last place: the sum's own error is a billionth of that
_METRIC = np.frombuffer(b'{"metric":{', dtype=np.uint8)
_VALUES = np.frombuffer(b',"values":[[', dtype=np.uint8)


class Decoded(NamedTuple):
    """Series and samples of one answer.

    Attributes
    ----------
    envelope
        The answer as JSON without its entries.
    labels
        Of each series [S].
    edges
        int64 [S + 1]: a series' samples are ``times[edges[s] : edges[s + 1]]``.
    times
        int64 [N], milliseconds since 1970.
    values
        float64 [N].
    """

    envelope: Any
    labels: list[dict[str, str]]
    edges: NDArray[np.int64]
    times: NDArray[np.int64]
    values: NDArray[np.float64]


def decode(content: bytes) -> Decoded | None:
    """A matrix of plain samples, or None when the answer is anything else."""
    at = content.find(_HEAD, 0, _HEAD_WITHIN)
    if at < 0:
        return None
    most = len(content) // _LEAST_SAMPLE + 1
    times, values = np.empty(most, dtype=np.int64), np.empty(most)  # memory is taken only where it is written to
    entries = content.count(b'{"metric":{')  # or more: a label's value may hold it
    edges, spans = np.zeros(entries + 1, dtype=np.int64), np.zeros((entries, 2), dtype=np.int64)
    hard = np.empty((_FEW, 3), dtype=np.int64)
    while True:  # again, with room, where more numbers are left over
        found, stop, left = _scan(
            np.frombuffer(content, dtype=np.uint8), at + len(_HEAD), edges, spans, times, values, hard, _TENS
        )
        if left <= len(hard):
            break
        hard = np.empty((left, 3), dtype=np.int64)
    if found == _BAD:
        return None
    try:
        for sample, low, high in hard[:left].tolist():
            values[sample] = float(content[low:high])
        said = b",".join([content[low:high] for low, high in spans[:found].tolist()])
        labels = orjson.loads(b"[%b]" % said)
        envelope = orjson.loads(content[: at + len(_HEAD)] + content[stop:])
    except ValueError:
        return None
    count = int(edges[found])
    return Decoded(envelope, labels, edges[: found + 1], times[:count], values[:count])


@part
def _is(text: NDArray[np.uint8], at: int, wanted: NDArray[np.uint8]) -> bool:
    if at + len(wanted) > len(text):
        return False
    for place in range(len(wanted)):  # noqa: SIM110  # compiled: a loop is what it is made of
        if text[at + place] != wanted[place]:
            return False
    return True


@part
def _labels_end(text: NDArray[np.uint8], at: int) -> int:
    """Past the ``}`` of the object that is open here and holds only text; `_BAD` where it holds more or has no end."""
    inside = False
    size = len(text)
    while at < size:
        byte = text[at]
        if inside:
            if byte == 92:  # a backslash: what follows is no end
                at += 1
            elif byte == 34:
                inside = False
        elif byte == 34:
            inside = True
        elif byte == 125:
            return at + 1
        elif byte not in (44, 58):  # two comparisons, compiled
            return _BAD
        at += 1
    return _BAD


@part
def _time(text: NDArray[np.uint8], at: int) -> tuple[int, int]:
    """Milliseconds and where their text ends; `_BAD` for more digits than that."""
    whole = 0
    first = at
    size = len(text)
    while at < size and 48 <= text[at] <= 57:
        whole = whole * 10 + (text[at] - 48)
        at += 1
    if at == first or at - first > 12:
        return 0, _BAD
    whole *= 1000
    if at < size and text[at] == 46:
        at += 1
        unit = 100
        while at < size and 48 <= text[at] <= 57:
            if unit == 0:
                return 0, _BAD
            whole += (text[at] - 48) * unit
            unit //= 10
            at += 1
    return whole, at


@part
def _number(  # noqa: C901, PLR0912  # one pass over a number's bytes
    text: NDArray[np.uint8], at: int, tens: NDArray[np.float64]
) -> tuple[float, int]:
    """A value and where its text ends; `_BAD` for one that this can't read exactly."""
    size = len(text)
    negative = at < size and text[at] == 45
    if negative:
        at += 1
    mantissa, digits, power, seen = 0, 0, 0, 0
    fraction = False
    while at < size:
        byte = int(text[at])
        if byte == 46 and not fraction:
            fraction = True
        elif 48 <= byte <= 57:
            seen += 1
            if digits < _DIGITS:
                mantissa = mantissa * 10 + (byte - 48)
                digits += mantissa > 0
                power -= fraction
            elif byte != 48:
                return 0.0, _BAD
            else:
                power += not fraction
        else:
            break
        at += 1
    if seen == 0:
        return 0.0, _BAD
    if at < size and (text[at] == 101 or text[at] == 69):
        at += 1
        down = at < size and text[at] == 45
        if at < size and (text[at] == 45 or text[at] == 43):
            at += 1
        first = at
        said = 0
        while at < size and 48 <= text[at] <= 57 and at - first < 4:
            said = said * 10 + (text[at] - 48)
            at += 1
        if at == first:
            return 0.0, _BAD
        power += -said if down else said
    if power < -22 or power > 22:
        return 0.0, _BAD
    value = float(mantissa)
    if mantissa > _EXACT:
        value = _scaled(mantissa, tens[abs(power)], power < 0)
        if np.isnan(value):
            return 0.0, _BAD
    elif power < 0:
        value /= tens[-power]
    elif power > 0:
        value *= tens[power]
    return -value if negative else value, at


@part
def _rest(one: float, other: float, product: float) -> float:
    """What ``one * other`` is more than its rounded self, exactly: from halves that multiply without rounding."""
    large = one * _SPLIT
    large = large - (large - one)
    small = one - large
    tall = other * _SPLIT
    tall = tall - (tall - other)
    short = other - tall
    return ((large * tall - product) + large * short + small * tall) + small * short


@part
def _scaled(whole: int, ten: float, down: bool) -> float:
    """The number nearest to ``whole`` over or times ``ten``, or NaN where that is too near to the middle of two."""
    high = float(whole)
    low = float(whole - int(high))
    if down:
        value = high / ten
        product = value * ten
        lacking = (((high - product) - _rest(value, ten, product)) + low) / ten
    else:
        value = high * ten
        lacking = _rest(high, ten, value) + low * ten
    nearest = value + lacking
    beside = lacking - (nearest - value)
    mantissa, power = math.frexp(nearest)
    half = math.ldexp(1.0, power - 54)
    if mantissa == 0.5 or abs(abs(beside) - half) < half * _MIDDLE:
        return np.nan
    return nearest


@compiled
def _scan(  # noqa: C901, PLR0911, PLR0912  # one pass over an answer's bytes
    text: NDArray[np.uint8],
    at: int,
    edges: NDArray[np.int64],
    spans: NDArray[np.int64],
    times: NDArray[np.int64],
    values: NDArray[np.float64],
    hard: NDArray[np.int64],
    tens: NDArray[np.float64],
) -> tuple[int, int, int]:
    """Read entries from ``at`` on, to the ``]`` of their list.

    Returns
    -------
    tuple
        Entries, `_BAD` where one is of another form; where the list's ``]`` is; and how many values are left to
        others, of which (sample, from, to) are in ``hard`` as far as it reaches.
    """
    size = len(text)
    entries, samples, left = 0, 0, 0
    if at < size and text[at] == 93:
        return 0, at, 0
    while True:
        if entries >= len(spans) or not _is(text, at, _METRIC):
            return _BAD, at, 0
        spans[entries, 0] = at + 10
        at = _labels_end(text, at + 11)
        if at == _BAD or not _is(text, at, _VALUES):
            return _BAD, at, 0
        spans[entries, 1] = at
        at += 11
        while True:
            if samples >= len(times) or at >= size or text[at] != 91:
                return _BAD, at, 0
            times[samples], at = _time(text, at + 1)
            if at == _BAD or at + 1 >= size or text[at] != 44 or text[at + 1] != 34:
                return _BAD, at, 0
            at += 2
            value, stop = _number(text, at, tens)
            if stop == _BAD or stop >= size or text[stop] != 34:
                stop = at
                while stop < size and text[stop] != 34:
                    stop += 1
                if left < len(hard):
                    hard[left, 0], hard[left, 1], hard[left, 2] = samples, at, stop
                left += 1
            values[samples] = value
            samples += 1
            if stop + 1 >= size or text[stop] != 34 or text[stop + 1] != 93:
                return _BAD, at, 0
            at = stop + 2
            if at < size and text[at] == 44:
                at += 1
            elif at < size and text[at] == 93:
                at += 1
                break
            else:
                return _BAD, at, 0
        if at >= size or text[at] != 125:
            return _BAD, at, 0
        at += 1
        entries += 1
        edges[entries] = samples
        if at < size and text[at] == 44:
            at += 1
        elif at < size and text[at] == 93:
            return entries, at, left
        else:
            return _BAD, at, 0
