"""Blocks tell every row once, by rows of other times."""

import numpy as np
import pytest

from models.scorers import Place
from models.telling import blocks

_STRIDE = 300_000_000_000
_DAY = 86_400_000_000_000


def of_two_nodes(ends: np.ndarray) -> Place:
    return Place(np.repeat(["n1", "n2"], len(ends)), np.tile(ends, 2), np.arange(2 * len(ends)))


@pytest.mark.parametrize("away", [0, 30, 400])
def test_a_long_hole_leaves_each_node_in_every_block(away: int) -> None:
    ends = np.r_[0, away * _DAY + np.arange(1, 4 * 288) * _STRIDE]
    where = of_two_nodes(ends)
    found = blocks(where, np.ones(2 * len(ends), dtype=bool))
    assert sorted(np.concatenate([tell for _, tell in found])) == list(range(2 * len(ends)))
    for learn, tell in found:
        assert {str(node) for node in where.node[tell]} == {"n1", "n2"}
        assert not np.isin(learn, tell).any()
