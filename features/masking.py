"""Log lines to masked lines: what differs from one line to the next of a kind becomes a placeholder.

Drain3 spends most of its time masking line by line with `re`; here each distinct message is masked once, in
one compiled pass over the bytes of all of them (`features.mask_kernel`).
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from features.mask_kernel import mask_bytes
from features.settings import TemplateSettings
from features.xid import is_target_line

# Bytes that no terminal shows, the line ends that only Python knows, and what stood for invalid UTF-8.
_UNPRINTABLE = r"[\x00-\x08\x0b-\x1f\x7f\x{85}\x{2028}\x{2029}\x{fffd}]"
# A line with more than this share of them is no text: all such lines are one kind.
_BINARY_RATIO = 0.3
BINARY = "<BINARY>"

# Said by the line itself where the export carries no severity (dmesg, plain syslog files).
_SOUNDS_WRONG = r"(?i)\b(?:errors?|fatal|panic|critical|fail(?:ed|ure)?|traceback|oops|BUG)\b"
_ERROR_SEVERITIES = frozenset({"emerg", "panic", "alert", "crit", "critical", "fatal", "err", "error"})


class Lines(NamedTuple):
    """Masked lines, and how many lines were dropped or changed by reason.

    Attributes
    ----------
    table
        One row a line in order of (time, node, message): node, source, masked, example (categorical; the
        first message of that masked line), time, kernel, error (bool), count.
    counts
        read, target, blank (both dropped), binary, truncated (both kept); flood once `features.floods` has folded it.
    """

    table: pd.DataFrame
    counts: Counter[str]


def mask(messages: pd.Series, longest: int = 2000) -> pd.Series:
    """The messages with numbers, addresses, times and the like replaced by placeholders; same index.

    Parameters
    ----------
    messages
        Strings.
    longest
        Characters after which a line is cut.
    """
    encoded = _encode(messages)
    masked = _mask(_clean(encoded.dictionary, longest))
    return pd.Series(masked.take(encoded.indices).to_pandas().array, index=messages.index)


def lines_table(logs: pd.DataFrame, settings: TemplateSettings | None = None) -> Lines:
    """Mask the lines of `LOGS`; lines that name the target and blank ones are left out and counted.

    Depends on nothing but the lines themselves, so it can be cached by node and day.
    """
    settings = settings or TemplateSettings()
    encoded = _encode(logs["message"])
    raw, codes = encoded.dictionary, encoded.indices.to_numpy(zero_copy_only=False)
    clean = _clean(raw, settings.max_line_characters)
    masked = _mask(clean).dictionary_encode()
    texts, kinds = masked.dictionary, masked.indices.to_numpy(zero_copy_only=False)
    target = np.asarray(is_target_line(raw.to_pandas()), dtype=bool)
    blank = _flags(pc.equal(texts, ""))[kinds] & ~target
    order = _order(logs, raw, codes, ~(target | blank))
    kind, shown = pd.factorize(kinds[codes[order]])
    sample = codes[order][np.unique(kind, return_index=True)[1]]
    error = _is_error(logs["severity"], texts, kinds[codes])
    table = pd.DataFrame(
        {
            "node": logs["node"].astype("category").array[order],
            "time": logs["time"].array[order],
            "source": logs["source"].astype("category").array[order],
            "masked": pd.Categorical.from_codes(kind, categories=_strings(texts.take(pa.array(shown)))),
            "example": pd.Categorical.from_codes(kind, categories=_strings(clean.take(pa.array(sample)))),
            "kernel": logs["kernel"].to_numpy()[order],
            "error": error[order],
            "count": logs["count"].to_numpy()[order],
        }
    )
    reasons = {
        "target": target,
        "blank": blank,
        "binary": _flags(pc.equal(clean, BINARY)),
        "truncated": _flags(pc.greater(pc.utf8_length(raw), settings.max_line_characters)),
    }
    counts = Counter({reason: int(flags[codes].sum()) for reason, flags in reasons.items()})
    counts["read"] = len(logs)
    return Lines(table, counts)


def _order(logs: pd.DataFrame, raw: pa.Array, codes: NDArray[np.int64], wanted: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Rows of wanted lines by (time, node, message): the same from any order of arrival."""
    rank = np.empty(len(raw), dtype=np.int64)
    rank[pc.array_sort_indices(raw).to_numpy()] = np.arange(len(raw))
    kept = np.flatnonzero(wanted[codes])
    node = pd.factorize(logs["node"], sort=True)[0]
    time = logs["time"].astype("int64").to_numpy()
    return kept[np.lexsort((rank[codes[kept]], node[kept], time[kept]))]


def _flags(array: pa.Array) -> NDArray[np.bool_]:
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=bool)


def _encode(messages: pd.Series) -> pa.DictionaryArray:
    array = pa.array(messages.fillna("").astype("str"), type=pa.large_string())
    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    return array.dictionary_encode()


def _strings(array: pa.Array) -> pd.Index[str]:
    strings: pd.Index[str] = pd.Index(array.to_pandas().array)
    return strings


def _clean(raw: pa.Array, longest: int) -> pa.Array:
    """Cut, without unprintable characters; a line of mostly such characters is only `BINARY`."""
    long = (pc.max(pc.binary_length(raw)).as_py() or 0) > longest
    cut = pc.utf8_slice_codeunits(raw, 0, longest) if long else raw
    odd = pc.count_substring_regex(cut, pattern=_UNPRINTABLE)
    if not pc.any(pc.greater(odd, 0)).as_py():
        return pc.utf8_trim_whitespace(cut)
    share = pc.divide(pc.cast(odd, pa.float64()), pc.max_element_wise(pc.utf8_length(cut), 1))
    text = pc.utf8_trim_whitespace(pc.replace_substring_regex(cut, pattern=_UNPRINTABLE + "+", replacement=" "))
    return pc.if_else(pc.and_(pc.greater(share, _BINARY_RATIO), pc.not_equal(text, "")), BINARY, text)


def _mask(clean: pa.Array) -> pa.Array:
    _, offsets, data = clean.buffers()
    if data is None:
        return clean
    ends = np.frombuffer(offsets, dtype=np.int64)[clean.offset : clean.offset + len(clean) + 1]
    out, edges = mask_bytes(np.frombuffer(data, dtype=np.uint8), ends)
    masked = pa.Array.from_buffers(pa.large_string(), len(clean), [None, pa.py_buffer(edges), pa.py_buffer(out)])
    return pc.utf8_rtrim_whitespace(masked)


def _is_error(severity: pd.Series, texts: pa.Array, kinds: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether a line is an error: by its severity, by its words where the export gives none."""
    codes, levels = pd.factorize(severity.fillna(""))
    said = np.array([level.lower() in _ERROR_SEVERITIES for level in levels], dtype=bool)
    silent = np.array([level == "" for level in levels], dtype=bool)
    words = _flags(pc.match_substring_regex(texts, pattern=_SOUNDS_WRONG))
    return np.asarray(said[codes] | (silent[codes] & words[kinds])) if len(levels) else np.zeros(0, dtype=bool)
