"""Compiled: what the scans of log lines share."""

from __future__ import annotations

from typing import Any

import numpy as np

from features.compiling import part

# As in `lines`, which must load without compiled code; kernels hold a copy, and only this kind of file stamps the cache
USUAL, ODD = 1, 2
_KERNEL = np.frombuffer(b"kernel", dtype=np.uint8)


@part
def is_blank(byte: Any) -> Any:
    """What str.isspace() holds of ASCII."""
    return byte == 32 or 9 <= byte <= 13 or 28 <= byte <= 31


@part
def says_kernel(data: Any, start: Any, end: Any) -> Any:
    """Whether the bytes from start to end are "kernel"."""
    same = end - start == 6
    for offset in range(6):
        same = same and data[start + offset] == _KERNEL[offset]
    return same
