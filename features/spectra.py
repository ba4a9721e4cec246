"""Fourier spectra of many windows at once, by NumPy's own transform, so that even an angle of rounding noise agrees."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from features.kernels import Floats, Ints

PARTS = ("real", "imag", "abs", "angle")
MOMENTS = ("centroid", "variance", "skew", "kurtosis")
_AT_ONCE = 1 << 20  # samples transformed at a time: bounds memory


def by_length(packed: Floats, lows: Ints, highs: Ints) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp], Floats]]:
    """Windows of one length at a time, a bounded number of them: series [M], windows [M] and samples [M, n]."""
    counts = highs - lows
    for length in np.unique(counts):
        if length == 0:
            continue
        series, windows = np.nonzero(counts == length)
        step = max(1, _AT_ONCE // int(length))
        for first in range(0, series.size, step):
            s, w = series[first : first + step], windows[first : first + step]
            yield s, w, packed[s[:, None], lows[s, w][:, None] + np.arange(length)]


def coefficients(
    packed: Floats, lows: Ints, highs: Ints, wanted: list[tuple[str, int]], slots: list[int], out: Floats
) -> None:
    """fft_coefficient: one of `PARTS` of the k-th coefficient, NaN where a window has fewer."""
    for s, w, samples in by_length(packed, lows, highs):
        spectrum = np.fft.rfft(samples)
        for (part, k), slot in zip(wanted, slots, strict=True):
            if k >= spectrum.shape[1]:
                continue
            value = spectrum[:, k]
            if part == "angle":
                out[s, w, slot] = np.angle(value, deg=True)
            elif part == "abs":
                out[s, w, slot] = np.abs(value)
            else:
                out[s, w, slot] = value.real if part == "real" else value.imag


def moments(
    packed: Floats, lows: Ints, highs: Ints, wanted: list[str], slots: list[int], out: Floats
) -> NDArray[np.bool_]:
    """fft_aggregated: `MOMENTS` of the amplitudes over their index; True [S, W] where rounding could show."""
    unsure = np.zeros(lows.shape, np.bool_)
    for s, w, samples in by_length(packed, lows, highs):
        amplitude = np.abs(np.fft.rfft(samples))
        index = np.arange(amplitude.shape[1], dtype=float)
        with np.errstate(all="ignore"):
            whole = amplitude.sum(axis=1)
            # a matrix product would sum a row in another order in a larger batch
            m1, m2, m3, m4 = ((amplitude * index**power).sum(axis=1) / whole for power in range(1, 5))
            variance = m2 - m1**2
            narrow = variance < 0.5
            skew = np.where(narrow, np.nan, (m3 - 3 * m1 * variance - m1**3) / variance**1.5)
            kurtosis = np.where(narrow, np.nan, (m4 - 4 * m1 * m3 + 6 * m2 * m1**2 - 3 * m1) / variance**2)
            noise = 1e-14 * (m4 + m2 + 1.0)
            unsure[s, w] = (noise > 1e-10 * variance**2) & (variance > 0.5 - noise)
        found = dict(zip(MOMENTS, (m1, variance, skew, kurtosis), strict=True))
        for name, slot in zip(wanted, slots, strict=True):
            out[s, w, slot] = found[name]
    return unsure
