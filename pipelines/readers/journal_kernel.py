"""Where the fields of journald's JSON lines stand, found in the bytes at once, without an object a line.

Only the usual line is taken: one flat object of text, with a message, a time and a host. Any other is left to
`pipelines.readers.journald`, which says what is wrong with it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from features.compiling import compiled, part
from pipelines.readers.line_kernel import ODD, USUAL, is_blank, says_kernel

_NAMES = (
    b"MESSAGE",
    b"__REALTIME_TIMESTAMP",
    b"_HOSTNAME",
    b"PRIORITY",
    b"_TRANSPORT",
    b"SYSLOG_IDENTIFIER",
    b"_SYSTEMD_UNIT",
    b"_COMM",
)
_MESSAGE, _TIME, _HOST, _PRIORITY, _TRANSPORT, _TAG, _UNIT, _COMM = range(len(_NAMES))
# No two of the names are of one length, so that a key's length tells which of them it may be
_BY_LENGTH = np.full(32, -1, dtype=np.int64)
_TEXT = np.zeros((len(_NAMES), 32), dtype=np.uint8)
for _place, _name in enumerate(_NAMES):
    _BY_LENGTH[len(_name)] = _place
    _TEXT[_place, : len(_name)] = np.frombuffer(_name, dtype=np.uint8)
_ONE = np.uint64(1)
_QUOTE, _BACKSLASH, _COLON, _COMMA, _OPEN, _CLOSE = 34, 92, 58, 44, 123, 125
_ZERO, _U = 48, 117
# What a text may not hold plainly: its end, the beginning of an escape, and control characters
_STOPS = np.zeros(256, dtype=np.bool_)
_STOPS[:32] = _STOPS[[_QUOTE, _BACKSLASH]] = True
# What may follow a backslash, beside a u
_ESCAPES = np.zeros(256, dtype=np.bool_)
_ESCAPES[np.frombuffer(b'"\\\\/bfnrt', dtype=np.uint8)] = True
_LETTERS = np.frombuffer(b"bfnrt", dtype=np.uint8)  # a letter's meaning behind a backslash, where it is not itself
_MEANT = np.array([8, 12, 10, 13, 9], dtype=np.int64)
_LATEST_US = 4_102_444_800_000_000  # 2100-01-01


@part
def _hex(byte: Any) -> Any:
    """The value of a hexadecimal digit; -1 for another byte."""
    if 48 <= byte <= 57:
        return np.int64(byte) - 48
    low = np.int64(byte) | 32
    return low - 87 if 97 <= low <= 102 else np.int64(-1)


@part
def _unicode(data: Any, place: Any, end: Any) -> Any:
    r"""The character of ``\uXXXX`` whose digits begin here; -1 when they are none, or half of a pair."""
    code = np.int64(0)
    for offset in range(4):
        value = _hex(data[place + offset]) if place + offset < end else np.int64(-1)
        if value < 0:
            return np.int64(-1)
        code = code * 16 + value
    return np.int64(-1) if 0xD800 <= code < 0xE000 else code


@part
def _text_end(data: Any, place: Any, end: Any) -> Any:
    """The place of the quote that ends the text begun here, negative if it holds escapes; 0 when it is not sound."""
    sign = 1
    while True:
        # an index without a sign needs no look whether it counts from the end
        cursor, last = np.uint64(place), np.uint64(end)
        while cursor < last and not _STOPS[data[cursor]]:
            cursor += _ONE
        place = np.int64(cursor)
        if place >= end:
            return 0
        byte = data[place]
        if byte == _QUOTE:
            return sign * place
        if byte != _BACKSLASH or place + 1 >= end:
            return 0
        sign = -1
        place += 1
        if data[place] == _U:
            if _unicode(data, place + 1, end) < 0:
                return 0
            place += 4
        elif not _ESCAPES[data[place]]:
            return 0
        place += 1


@part
def _after_blanks(data: Any, place: Any, end: Any) -> Any:
    while place < end and (data[place] == 32 or data[place] == 9 or data[place] == 13):
        place += 1
    return place


@part
def _slot(data: Any, start: Any, end: Any) -> Any:
    """Which of the names the key is; -1 for another."""
    length = end - start
    if length >= 32:
        return -1
    slot = _BY_LENGTH[length]
    if slot >= 0:
        for offset in range(length):
            if data[start + offset] != _TEXT[slot, offset]:
                return -1
    return slot


@part
def _fields(data: Any, place: Any, end: Any, found: Any) -> Any:  # noqa: C901, PLR0911  # a grammar's steps in a row
    """Whether the line is one flat object of text; ``found`` [8, 3] gets each value's start, end and escapes."""
    for slot in range(8):
        found[slot, 0], found[slot, 1], found[slot, 2] = -1, -1, 0
    place = _after_blanks(data, place, end)
    if place >= end or data[place] != _OPEN:
        return False
    while True:
        place = _after_blanks(data, place + 1, end)
        if place >= end or data[place] != _QUOTE:
            return False
        key = place + 1
        place = _text_end(data, key, end)
        if place <= 0:  # a key of ours has no escapes
            return False
        slot = _slot(data, key, place)
        place = _after_blanks(data, place + 1, end)
        if place >= end or data[place] != _COLON:
            return False
        place = _after_blanks(data, place + 1, end)
        if place >= end or data[place] != _QUOTE:
            return False
        value = place + 1
        closing = _text_end(data, value, end)
        if closing == 0:
            return False
        place = abs(closing)
        if slot >= 0:
            found[slot, 0], found[slot, 1], found[slot, 2] = value, place, closing < 0
        place = _after_blanks(data, place + 1, end)
        if place >= end:
            return False
        if data[place] == _CLOSE:
            return _after_blanks(data, place + 1, end) == end
        if data[place] != _COMMA:
            return False


@part
def _number(data: Any, start: Any, end: Any) -> Any:
    """The number of at most 16 digits; -1 when it is none."""
    if end <= start or end - start > 16:
        return np.int64(-1)
    value = np.int64(0)
    for place in range(start, end):
        digit = np.int64(data[place]) - _ZERO
        if digit < 0 or digit > 9:
            return np.int64(-1)
        value = value * 10 + digit
    return value


@part
def _copy(found: Any, slot: Any, spans: Any, place: Any, line: Any) -> None:
    if found[slot, 0] >= 0:
        spans[place, line, 0], spans[place, line, 1], spans[place, line, 2] = (
            found[slot, 0],
            found[slot, 1],
            found[slot, 2],
        )


@compiled
def scan(data: Any, ends: Any) -> Any:
    """The fields of the usual lines.

    Parameters
    ----------
    data
        uint8 [bytes], UTF-8.
    ends
        int64 [count], where each line ends; the next begins one byte later.

    Returns
    -------
    state
        uint8 [count], a line's state, see `lines`.
    spans
        int64 [3, count, 3], start, end and escapes of host, source and message.
    times
        int64 [count], nanoseconds since 1970.
    severity
        int8 [count], 0 to 7, -1 for none.
    kernel
        bool [count].
    """
    count = len(ends)
    state = np.zeros(count, dtype=np.uint8)
    spans, times = np.zeros((3, count, 3), dtype=np.int64), np.zeros(count, dtype=np.int64)
    severity, kernel = np.full(count, -1, dtype=np.int8), np.zeros(count, dtype=np.bool_)
    found = np.empty((8, 3), dtype=np.int64)
    start = np.int64(0)
    for line in range(count):
        first, end = start, ends[line]
        start = end + 1
        place = first
        while place < end and is_blank(data[place]):
            place += 1
        if place == end:
            continue
        state[line] = ODD
        if not _fields(data, first, end, found):
            continue
        micros = _number(data, found[_TIME, 0], found[_TIME, 1])
        if micros < 0 or micros >= _LATEST_US or found[_MESSAGE, 0] < 0 or found[_HOST, 1] <= found[_HOST, 0]:
            continue
        if found[_HOST, 2] + found[_PRIORITY, 2] + found[_TRANSPORT, 2] > 0:
            continue
        if found[_PRIORITY, 1] - found[_PRIORITY, 0] == 1:
            level = np.int64(data[found[_PRIORITY, 0]]) - _ZERO
            severity[line] = level if 0 <= level <= 7 else -1
        source = _TAG  # or the first of the three that says anything
        if found[source, 1] <= found[source, 0]:
            source = _UNIT
        if found[source, 1] <= found[source, 0]:
            source = _COMM
        said = _TRANSPORT if found[_TRANSPORT, 1] > found[_TRANSPORT, 0] else _TAG
        if found[said, 2] > 0:
            continue
        kernel[line] = says_kernel(data, found[said, 0], found[said, 1])
        _copy(found, _HOST, spans, 0, line)
        _copy(found, source, spans, 1, line)
        _copy(found, _MESSAGE, spans, 2, line)
        times[line] = micros * 1000
        state[line] = USUAL
    return state, spans, times, severity, kernel


@part
def _unescaped(data: Any, place: Any, end: Any) -> Any:
    """Where the escape ends whose letter stands here, and the character it means."""
    letter = np.int64(data[place])
    if letter == _U:
        return place + 5, _unicode(data, place + 1, end)
    for known in range(5):
        if letter == _LETTERS[known]:
            letter = _MEANT[known]
            break
    return place + 1, letter


@part
def _append(text: Any, size: Any, code: Any) -> Any:
    """Write a character as UTF-8; where the next goes."""
    if code < 0x80:
        text[size] = code
        return size + 1
    if code < 0x800:
        text[size], text[size + 1] = 0xC0 | code >> 6, 0x80 | code & 63
        return size + 2
    text[size], text[size + 1], text[size + 2] = 0xE0 | code >> 12, 0x80 | code >> 6 & 63, 0x80 | code & 63
    return size + 3


@compiled
def gather(data: Any, spans: Any) -> Any:
    """Texts one behind the other.

    Parameters
    ----------
    data
        uint8 [bytes].
    spans
        int64 [n, 3], start, end and whether JSON's escapes are to be resolved.

    Returns
    -------
    text
        uint8 [bytes].
    offsets
        int64 [n + 1], where each begins in it.
    """
    total = np.int64(0)
    for row in range(len(spans)):
        total += spans[row, 1] - spans[row, 0]
    text, offsets = np.empty(total, dtype=np.uint8), np.zeros(len(spans) + 1, dtype=np.int64)
    size = np.int64(0)
    for row in range(len(spans)):
        place, end = spans[row, 0], spans[row, 1]
        if spans[row, 2] == 0:
            for offset in range(end - place):
                text[size + offset] = data[place + offset]
            size += end - place
        else:
            while place < end:
                byte = data[place]
                if byte != _BACKSLASH:
                    text[size] = byte
                    size += 1
                    place += 1
                    continue
                place, code = _unescaped(data, place + 1, end)
                size = _append(text, size, code)
        offsets[row + 1] = size
    return text[:size], offsets
