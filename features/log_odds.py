"""How rare a template in a window is, and so many of its lines."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import special

_DISPERSION = (0.01, 1e6)  # bounds of r; at the upper one the negative binomial is a Poisson


def rarity(held: NDArray[np.int64] | NDArray[np.float64], total: int) -> NDArray[np.float64]:
    """-log10 of the share of windows, half a window added (Jeffreys) so that never is not impossible."""
    return np.asarray(np.log10(total + 1.0) - np.log10(held + 0.5))


def tail(
    count: NDArray[np.int64], mean: NDArray[np.float64], size: NDArray[np.float64], known: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """-log10 P(C >= count) of a negative binomial of this mean and size; 0 where not known.

    The tail is a regularised incomplete beta function (DLMF 8.17.5); where it underflows, its first term
    stands for it, which is its order of magnitude.
    """
    out = np.zeros(len(count))
    c, mu, r = count[known].astype(np.float64), mean[known], size[known]
    tail = special.betainc(c, r, mu / (r + mu))
    term = (
        special.gammaln(c + r) - special.gammaln(r) - special.gammaln(c + 1)
        + r * np.log(r / (r + mu)) + c * np.log(mu / (r + mu))
    )  # fmt: skip  # two halves of one formula
    out[known] = np.maximum(-np.where(tail > 1e-290, np.log(np.maximum(tail, 1e-290)), term) / np.log(10), 0)
    return out


def dispersion(
    heard: NDArray[np.int64],
    squares: NDArray[np.int64],
    windows: NDArray[np.int64],
    template: NDArray[np.int64],
    length: int,
) -> list[float]:
    """Size r of each template by moments within nodes: sum W m^2 / (sum (c - m)^2 - sum W m)."""
    mean = heard / windows
    level = np.bincount(template, windows * mean**2, minlength=length)
    spread = np.bincount(template, squares - windows * mean**2 - heard, minlength=length)
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.where(spread > 0, level / spread, _DISPERSION[1])
    return [float(value) for value in np.clip(size, *_DISPERSION)]
