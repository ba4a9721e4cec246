"""Where time, host, tag and text of syslog lines stand, found in the bytes at once, without an object a line.

Only the usual lines of RFC 3339 files, RFC 5424 and RFC 3164 are taken, with or without a priority. Any other is left
to `pipelines.readers.syslog`, which knows every dialect and says what is wrong with a line.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from features.compiling import compiled, part
from pipelines.readers.line_kernel import ODD, USUAL, is_blank, says_kernel

NO_TIME = np.int64(np.iinfo(np.int64).min)
_ZERO, _SPACE, _COLON, _OPEN, _CLOSE, _LESS, _MORE, _DASH, _BACKSLASH = 48, 32, 58, 91, 93, 60, 62, 45, 92
_SECOND = 1_000_000_000
_MONTHS = np.frombuffer(b"JanFebMarAprMayJunJulAugSepOctNovDec", dtype=np.uint8)
_DAYS = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], dtype=np.int64)


@part
def _digits(data: Any, place: Any, end: Any, count: Any) -> Any:
    """The number of so many digits; -1 when they are none."""
    if place + count > end:
        return np.int64(-1)
    value = np.int64(0)
    for offset in range(count):
        digit = np.int64(data[place + offset]) - _ZERO
        if digit < 0 or digit > 9:
            return np.int64(-1)
        value = value * 10 + digit
    return value


@part
def _digits_end(data: Any, place: Any, end: Any) -> Any:
    """Where the digits from here on end."""
    while place < end and 48 <= data[place] <= 57:
        place += 1
    return place


@part
def _word_end(data: Any, place: Any, end: Any) -> Any:
    """Where the visible ASCII from here on ends."""
    while place < end and 33 <= data[place] <= 126:
        place += 1
    return place


@part
def _fraction(data: Any, place: Any, end: Any) -> Any:
    """Nanoseconds of the digits from here on; -1 when there are none or more than nine."""
    stop = _digits_end(data, place, end)
    count = stop - place
    if count < 1 or count > 9:
        return np.int64(-1)
    value = _digits(data, place, stop, count)
    for _ in range(9 - count):
        value *= 10
    return value


@part
def _clock(data: Any, place: Any, end: Any) -> Any:
    """Seconds of ``hh:mm:ss``; -1 when it is none."""
    if place + 8 > end or data[place + 2] != _COLON or data[place + 5] != _COLON:
        return np.int64(-1)
    hour, minute = _digits(data, place, end, 2), _digits(data, place + 3, end, 2)
    second = _digits(data, place + 6, end, 2)
    if hour < 0 or hour > 23 or minute < 0 or minute > 59 or second < 0 or second > 59:
        return np.int64(-1)
    return (hour * 60 + minute) * 60 + second


@part
def _iso(data: Any, place: Any, end: Any) -> Any:  # noqa: PLR0911  # each is another way to be no time
    """Nanoseconds since 1970 of ``2026-01-01T00:00:00.123+01:00``; `NO_TIME` for another form."""
    year, month, day = _digits(data, place, end, 4), _digits(data, place + 5, end, 2), _digits(data, place + 8, end, 2)
    if year < 1971 or year > 2200 or month < 1 or month > 12 or day < 1:
        return NO_TIME
    leap = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if day > _DAYS[month - 1] + leap or data[place + 4] != _DASH or data[place + 7] != _DASH:
        return NO_TIME
    seconds = _clock(data, place + 11, end)
    if seconds < 0 or data[place + 10] != 84:  # T
        return NO_TIME
    place += 19
    nanos = np.int64(0)
    if place < end and data[place] == 46:  # .
        nanos = _fraction(data, place + 1, end)
        if nanos < 0:
            return NO_TIME
        place = _digits_end(data, place + 1, end)
    if place >= end:
        return NO_TIME
    sign = data[place]
    if sign == 90 and place + 1 == end:  # Z
        away = np.int64(0)
    elif sign in (43, _DASH):  # +
        hour = _digits(data, place + 1, end, 2)
        colon = place + 3 < end and data[place + 3] == _COLON
        minute = _digits(data, place + 3 + colon, end, 2)
        if hour < 0 or hour > 23 or minute < 0 or minute > 59 or place + 5 + colon != end:
            return NO_TIME
        away = (hour * 60 + minute) * 60
        if sign == _DASH:
            away = -away
    else:
        return NO_TIME
    # days since 1970 of a date, counted from March so that a leap day is a year's last
    years, months = (year, month - 3) if month > 2 else (year - 1, month + 9)
    days = years * 365 + years // 4 - years // 100 + years // 400 + (153 * months + 2) // 5 + day - 1 - 719_468
    return (days * 86_400 + seconds - away) * _SECOND + nanos


@part
def _month(data: Any, place: Any, end: Any) -> Any:
    """1 to 12 of an English short name; 0 for another."""
    if place + 3 > end:
        return 0
    for month in range(12):
        if (
            data[place] == _MONTHS[3 * month]
            and data[place + 1] == _MONTHS[3 * month + 1]
            and data[place + 2] == _MONTHS[3 * month + 2]
        ):
            return month + 1
    return 0


@part
def _old_time(data: Any, place: Any, end: Any, month: Any) -> Any:
    """Minute of ``Jan  1 00:00:00.5`` as `scan` packs it, nanoseconds within it or `NO_TIME`, and where it ends."""
    stop = place + 3
    if stop + 1 < end and data[stop] == _SPACE and data[stop + 1] == _SPACE:
        stop += 1
    after = _digits_end(data, stop + 1, end)
    count = after - stop - 1
    day = _digits(data, stop + 1, end, count) if 1 <= count <= 2 else np.int64(-1)
    seconds = _clock(data, after + 1, end)
    if seconds < 0 or day < 1 or day > 31 or data[stop] != _SPACE or data[after] != _SPACE:
        return np.int64(0), NO_TIME, stop
    stop = after + 9
    nanos = np.int64(0)
    if stop < end and data[stop] == 46:  # .
        nanos = _fraction(data, stop + 1, end)
        stop = _digits_end(data, stop + 1, end)
    minute = ((month * 32 + day) * 24 + seconds // 3600) * 60 + seconds // 60 % 60
    return minute, seconds % 60 * _SECOND + nanos if nanos >= 0 else NO_TIME, stop


@part
def _priority(data: Any, place: Any, end: Any) -> Any:
    """The number of ``<30>`` (-1 for none, -2 for a broken one), where it ends, whether RFC 5424's version follows."""
    if data[place] != _LESS:
        return np.int64(-1), place, False
    stop = _digits_end(data, place + 1, end)
    count = stop - place - 1
    if count < 1 or count > 3 or stop >= end or data[stop] != _MORE:
        return np.int64(-2), place, False
    number = _digits(data, place + 1, end, count)
    if stop + 2 < end and data[stop + 1] == 49 and data[stop + 2] == _SPACE:
        return number, stop + 3, True
    return number, stop + 1, False


@part
def _without_printk(data: Any, place: Any, end: Any) -> Any:
    """Where the text begins behind ``[  885.242168]`` and ``[ T1946]``; -1 when a person must look."""
    for _ in range(2):
        if place >= end or data[place] != _OPEN:
            break
        at = place + 1
        while at < end and data[at] == _SPACE:
            at += 1
        if at < end and (data[at] == 84 or data[at] == 67):  # T, C
            stop = _digits_end(data, at + 1, end)
            sound = 1 <= stop - at - 1 <= 9
        else:
            stop = _digits_end(data, at, end)
            sound = 1 <= stop - at <= 12 and stop < end and data[stop] == 46
            if sound:
                at, stop = stop + 1, _digits_end(data, stop + 1, end)
                sound = stop - at == 6
        if stop < end and data[stop] > 126:
            return np.int64(-1)  # a digit of another script
        if not sound or stop >= end or data[stop] != _CLOSE:
            break
        place = stop + 1
        if place < end and data[place] == _SPACE:
            place += 1
    return np.int64(place)


@part
def _tag_end(data: Any, place: Any, end: Any) -> Any:
    """Where the tag's name ends; -1 when there is none or it is too long."""
    stop = place
    while stop < end and 33 <= data[stop] <= 126 and data[stop] != _OPEN and data[stop] != _COLON:
        stop += 1
    return stop if 1 <= stop - place <= 64 else np.int64(-1)


@part
def _body(data: Any, place: Any, end: Any, spans: Any, line: Any) -> Any:
    """Whether ``host tag[42]: text`` begins here; the line's spans of host, tag and text are set."""
    stop = _word_end(data, place, end)
    if stop == place or stop >= end or data[stop] != _SPACE or data[stop - 1] == _COLON:
        return False
    spans[0, line, 0], spans[0, line, 1] = place, stop
    place = stop + 1
    stop = _tag_end(data, place, end)
    if stop < 0 or stop >= end:
        return False
    spans[1, line, 0], spans[1, line, 1] = place, stop
    if data[stop] == _OPEN:
        first = stop + 1
        stop = first
        while stop < end and 33 <= data[stop] <= 126 and data[stop] != _CLOSE:
            stop += 1
        if stop >= end or data[stop] != _CLOSE or stop - first > 40:
            return False
        stop += 1
    if stop + 1 >= end or data[stop] != _COLON or data[stop + 1] != _SPACE:
        return False
    text = _without_printk(data, stop + 2, end)
    spans[2, line, 0], spans[2, line, 1] = text, end
    return text >= 0


@part
def _new_body(data: Any, place: Any, end: Any, spans: Any, line: Any) -> Any:
    """The same of RFC 5424's ``host app procid msgid [data] text``."""
    for which in range(4):
        stop = _word_end(data, place, end)
        most = 255 if which == 0 else 48 if which == 1 else 128 if which == 2 else 32
        if stop == place or stop - place > most or stop >= end or data[stop] != _SPACE:
            return False
        if which < 2:
            spans[which, line, 0], spans[which, line, 1] = place, stop
        place = stop + 1
    if place >= end:
        return False
    if data[place] == _DASH:
        place += 1
    else:
        first = place
        while place < end and data[place] == _OPEN:
            while place < end and data[place] != _CLOSE:
                if data[place] == _BACKSLASH:
                    return False
                place += 1
            place += 1
        if place == first or place > end:
            return False
    if place < end and data[place] == _SPACE:
        place += 1
    if place < end and data[place] == 0xEF:  # a byte order mark, maybe
        return False
    text = _without_printk(data, place, end)
    spans[2, line, 0], spans[2, line, 1] = text, end
    return text >= 0 and not (spans[0, line, 1] - spans[0, line, 0] == 1 and data[spans[0, line, 0]] == _DASH)


@compiled
def scan(data: Any, ends: Any) -> Any:  # noqa: C901, PLR0912  # a line's steps in a row
    """The parts of the usual lines.

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
        int64 [3, count, 3], start, end and 0 of host, tag and text.
    times
        int64 [count], nanoseconds since 1970, or since the minute began where the time has no year.
    minutes
        int32 [count], minute of the month and day, ``((month * 32 + day) * 24 + hour) * 60 + minute``; 0 with a year.
    severity
        int8 [count], 0 to 7, -1 for none.
    kernel
        bool [count].
    """
    count = len(ends)
    state = np.zeros(count, dtype=np.uint8)
    spans, times = np.zeros((3, count, 3), dtype=np.int64), np.zeros(count, dtype=np.int64)
    minutes, severity = np.zeros(count, dtype=np.int32), np.full(count, -1, dtype=np.int8)
    kernel = np.zeros(count, dtype=np.bool_)
    start = np.int64(0)
    for line in range(count):
        place, end = start, ends[line]
        start = end + 1
        if end > place and data[end - 1] == 13:
            end -= 1
        first = place
        while first < end and is_blank(data[first]):
            first += 1
        if first == end:
            continue
        state[line] = ODD
        priority, place, version = _priority(data, place, end)
        if priority >= 0:
            severity[line] = priority & 7
        month = 0 if version else _month(data, place, end)
        if priority < -1:
            continue
        if month:
            minutes[line], times[line], stop = _old_time(data, place, end, month)
        else:
            stop = _word_end(data, place, end)
            times[line] = _iso(data, place, stop)
        if times[line] == NO_TIME:
            continue
        if stop >= end or data[stop] != _SPACE:
            continue
        if version:
            if not _new_body(data, stop + 1, end, spans, line):
                continue
            if spans[1, line, 1] - spans[1, line, 0] == 1 and data[spans[1, line, 0]] == _DASH:
                spans[1, line, 1] = spans[1, line, 0]
        elif not _body(data, stop + 1, end, spans, line):
            continue
        kernel[line] = says_kernel(data, spans[1, line, 0], spans[1, line, 1]) or (version and priority >> 3 == 0)
        state[line] = USUAL
    return state, spans, times, minutes, severity, kernel
