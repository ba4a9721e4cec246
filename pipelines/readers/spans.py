"""Places in a block of bytes to Arrow's texts, without a Python object a line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipelines.readers.objects import SEVERITIES

_LEVELS = pa.array([*SEVERITIES, ""], pa.large_string())


def texts_at(data: NDArray[np.uint8], spans: NDArray[np.int64]) -> Any:
    """The texts at these places: start, end and whether JSON's escapes are in it, of each."""
    from pipelines.readers import journal_kernel  # noqa: PLC0415  # half a second that small files need not wait

    text, offsets = journal_kernel.gather(data, np.ascontiguousarray(spans))
    return pa.LargeStringArray.from_buffers(len(spans), pa.py_buffer(offsets), pa.py_buffer(text))


def severities(levels: NDArray[np.int8]) -> Any:
    """The words of syslog's levels 0 to 7; "" for -1."""
    return _LEVELS.take(pa.array(np.where(levels < 0, len(SEVERITIES), levels)))
