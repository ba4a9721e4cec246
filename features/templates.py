"""Masked lines to templates: Drain3's clusters, mined once in time order, then frozen.

The only door to drain3. Its snapshots are never read or written (they are jsonpickle, which runs code):
a frozen set of templates is plain JSON, and matching needs nothing but the templates' texts.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import orjson
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from drain3.drain import Drain, LogCluster, LogClusterCache
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from features.floods import FLOOD
from features.settings import TemplateSettings
from features.tables import ModelError

WILDCARD = "<*>"
UNKNOWN = -1
_FORMAT = "foreshock-templates-1"


def mine(lines: pd.DataFrame, settings: TemplateSettings | None = None) -> Templates:
    """Templates of masked lines, equal to Drain3's clusters after the same lines in the same order.

    A line whose clusters have not changed since it was last looked up would be put where it was put
    then, so only lines of token counts in motion are searched. Arrival order does not matter: lines are
    taken by (time, text).

    Parameters
    ----------
    lines
        Rows with time, masked and (optional) example, as `features.masking.lines_table` makes them.
    settings
        Drain3's parameters; beyond ``max_clusters`` the template not seen for longest is forgotten. In a flood of
        texts that are all different Drain3 compares each line with thousands of clusters: only the ``max_texts``
        heard most often are mined, the others stay lines that no template knows.
    """
    settings = settings or TemplateSettings()
    masked = lines["masked"].astype("category").cat.remove_unused_categories()
    known = masked.cat.categories
    rank = np.empty(len(known), dtype=np.int64)
    rank[pc.array_sort_indices(pa.array(known, type=pa.large_string())).to_numpy()] = np.arange(len(known))
    codes = masked.cat.codes.to_numpy().astype(np.int64)
    order = np.lexsort((rank[codes], lines["time"].astype("int64").to_numpy()))
    if FLOOD in known:
        order = order[codes[order] != known.get_loc(FLOOD)]
    order = order[_often(codes[order], len(known), settings.max_texts)]
    used, codes = np.unique(codes[order], return_inverse=True)
    drain, founders = _feed(codes, known[used].to_numpy(dtype=object), settings)
    clusters = sorted(drain.clusters, key=lambda cluster: int(cluster.cluster_id))
    where = order[np.array([founders[cluster.cluster_id] for cluster in clusters], dtype=np.int64)]
    written = lines["example" if "example" in lines else "masked"].iloc[where]
    return Templates(
        settings=settings,
        texts=tuple(str(cluster.get_template()) for cluster in clusters),
        sizes=tuple(int(cluster.size) for cluster in clusters),
        examples=tuple(str(line) for line in written),
    )


def _often(codes: NDArray[np.int64], texts: int, most: int) -> NDArray[np.intp]:
    """Places of the lines whose text is among the ``most`` heard most often; of equals, the earlier."""
    if texts <= most:
        return np.arange(len(codes))
    heard = np.bincount(codes, minlength=texts)
    first = np.full(texts, len(codes))
    np.minimum.at(first, codes, np.arange(len(codes)))
    kept = np.zeros(texts, dtype=bool)
    kept[np.lexsort((first, -heard))[:most]] = True
    return np.flatnonzero(kept[codes])


class _Forgetful(LogClusterCache):  # type: ignore[misc]  # drain3 has no types
    """Drain3's own cache of least recent use, telling which token count lost a cluster."""

    lost: int | None = None

    def popitem(self) -> tuple[int, LogCluster]:
        key, cluster = super().popitem()
        self.lost = len(cluster.log_template_tokens)
        return key, cluster


def _feed(codes: NDArray[np.int64], texts: NDArray[Any], settings: TemplateSettings) -> tuple[Drain, dict[int, int]]:
    """Drain3 after these lines, and the place of the first line of each cluster by cluster id."""
    drain = Drain(settings.depth, settings.similarity, settings.max_children, settings.max_clusters)
    kept = drain.id_to_cluster = _Forgetful(settings.max_clusters)
    lengths = [len(text.split()) for text in texts]
    version = [0] * (max(lengths, default=0) + 1)  # of each token count's part of the tree
    looked = [-1] * len(texts)  # the version at which a line was last looked up and moved nothing
    cluster_of: list[LogCluster | None] = [None] * len(texts)
    founders: dict[int, int] = {}
    crowded = len(texts) > settings.max_clusters  # otherwise nothing is ever forgotten and use needs no record
    for place, code in enumerate(codes.tolist()):
        length = lengths[code]
        cluster = cluster_of[code]
        if cluster is not None and looked[code] == version[length]:
            cluster.size += 1
            if crowded:
                kept[cluster.cluster_id]  # reading marks it as used, as Drain3 does
            continue
        cluster, change = drain.add_log_message(texts[code])
        cluster_of[code] = cluster
        if change == "none":
            looked[code] = version[length]
            continue
        version[length] += 1
        if change == "cluster_created":
            founders[cluster.cluster_id] = place
        if kept.lost is not None:
            version[kept.lost] += 1
            kept.lost = None
    return drain, founders


class Rates(BaseModel):
    """How often each template is heard in quiet times, by node; a pair is a (node, template) heard at least once.

    Attributes
    ----------
    nodes, node_windows
        Nodes of the training windows, and how many windows each gave.
    dispersion
        Size r of each template's negative binomial: variance = mean + mean^2 / r.
    pair_node, pair_template
        Indexes, ascending by (node, template).
    held
        Windows of the node that hold the template.
    heard
        Lines of the template summed over the node's windows.
    first, last
        First and last such line in nanoseconds since 1970.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    nodes: list[str]
    node_windows: list[int]
    dispersion: list[float]
    pair_node: list[int]
    pair_template: list[int]
    held: list[int]
    heard: list[int]
    first: list[int]
    last: list[int]


class _Document(BaseModel):
    """The JSON of frozen templates."""

    model_config = ConfigDict(extra="forbid", strict=True)

    format: str
    settings: dict[str, int | float]
    texts: list[str]
    sizes: list[int]
    examples: list[str]
    rates: Rates | None


@dataclass(frozen=True)
class Templates:
    """Frozen templates: a template's id is its place in `texts`.

    Attributes
    ----------
    texts
        Tokens joined by one blank; ``<*>`` stands for any one token.
    sizes
        Lines of each in mining.
    examples
        A line as it was written.
    rates
        Filled by `features.log_columns.fit_rates`.
    """

    settings: TemplateSettings
    texts: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    examples: tuple[str, ...] = ()
    rates: Rates | None = None

    def __post_init__(self) -> None:
        tree: dict[Any, Any] = {}
        for number, text in enumerate(self.texts):
            tokens = text.split()
            branch = tree.setdefault(len(tokens), {})
            for token in tokens:
                branch = branch.setdefault(token, {})
            branch.setdefault(None, number)  # two clusters may have grown into one text: the older counts
        object.__setattr__(self, "_tree", tree)
        object.__setattr__(self, "_last", (None, np.zeros(0, dtype=np.int64)))

    def match(self, masked: pd.Series) -> NDArray[np.int64]:
        """The template of each line, int64; -1 where none fits.

        A template fits when every token is equal or ``<*>`` (Drain3's ``match``); of several the one with
        the fewest ``<*>``, then the oldest. What a flood lost is never known. Changes nothing.
        """
        column = masked.astype("category")
        texts = column.cat.categories
        last, known = self._last  # type: ignore[attr-defined]  # set in __post_init__
        if last is not texts:  # rows of one table are asked for in portions, and share their texts
            known = np.array([self._find(text) for text in texts], dtype=np.int64)
            object.__setattr__(self, "_last", (texts, known))
        codes = column.cat.codes.to_numpy()
        return np.where(codes < 0, UNKNOWN, known[codes]) if len(known) else np.full(len(codes), UNKNOWN, np.int64)

    def _find(self, text: str) -> int:
        tokens = str(text).split()
        if not tokens or text == FLOOD:
            return UNKNOWN
        # every node of the tree is passed at most once, so a line costs no more than the templates of its length
        paths = [(0, self._tree.get(len(tokens), {}))]  # type: ignore[attr-defined]  # set in __post_init__
        for token in tokens:
            onward = []
            for wild, branch in paths:
                if token != WILDCARD and token in branch:
                    onward.append((wild, branch[token]))
                if WILDCARD in branch:
                    onward.append((wild + 1, branch[WILDCARD]))
            if not onward:
                return UNKNOWN
            paths = onward
        return int(min((wild, branch[None]) for wild, branch in paths)[1])

    def to_json(self) -> str:
        """Plain JSON; `from_json` gives back an equal object."""
        document = {
            "format": _FORMAT,
            "settings": self.settings.model_dump(),
            "texts": self.texts,
            "sizes": self.sizes,
            "examples": self.examples,
            "rates": None if self.rates is None else self.rates.model_dump(),
        }
        return orjson.dumps(document).decode()

    @staticmethod
    def from_json(text: str | bytes) -> Templates:
        """Read what `to_json` wrote.

        Raises
        ------
        ModelError
            The text is not such JSON, or its parts do not fit each other.
        """
        try:
            found = _Document.model_validate(orjson.loads(text))
            settings = TemplateSettings.model_validate(found.settings)
        except (orjson.JSONDecodeError, ValidationError) as error:
            reason = str(error).splitlines()[0]
            raise ModelError(f"templates can't be read ({reason}); train again or restore the bundle") from error
        if fault := _fault(found):
            raise ModelError(f"templates don't fit together ({fault}); train again or restore the bundle")
        return Templates(settings, tuple(found.texts), tuple(found.sizes), tuple(found.examples), found.rates)


def _fault(found: _Document) -> str:
    """What is wrong with a document of the right shape; "" when nothing is."""
    count = len(found.texts)
    faults = {
        f"format {found.format[:40]!r}, wanted {_FORMAT!r}": found.format != _FORMAT,
        "texts, sizes and examples differ in number": {len(found.sizes), len(found.examples)} != {count},
        "an empty template": any(not text.split() for text in found.texts),
        **({} if found.rates is None else _rate_faults(found.rates, count)),
    }
    return next((fault for fault, holds in faults.items() if holds), "")


def _rate_faults(rates: Rates, count: int) -> dict[str, bool]:
    pairs = list(zip(rates.pair_node, rates.pair_template, strict=False))
    columns = (rates.pair_template, rates.held, rates.heard, rates.first, rates.last)
    return {
        "rates of other nodes": len(rates.nodes) != len(rates.node_windows),
        "rates of other templates": len(rates.dispersion) != count,
        "pairs differ in number": any(len(column) != len(rates.pair_node) for column in columns),
        "a pair of an unknown node or template": any(
            not (0 <= node < len(rates.nodes) and 0 <= template < count) for node, template in pairs
        ),
        "pairs out of order": any(a >= b for a, b in pairwise(pairs)),
        "a dispersion that is not above zero": not all(0 < value < float("inf") for value in rates.dispersion),
        "a count below one": min([*rates.node_windows, *rates.held, *rates.heard], default=1) < 1,
    }
