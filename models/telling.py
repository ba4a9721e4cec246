"""What is told of each window without knowing any failure: signs, and the opinions of models that need no labels.

Everything here is learned from quiet windows, so nothing is gained by learning it anew for each failure that is held
out. Instead windows are dealt to blocks, whole spans of each node's time, and each block is told by what was learned on
the others, an embargo away: no window is told by anything that saw it, its node's span, or a window that is not quiet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features.presence import LOST_GPUS, status
from features.tables import InputError
from models.baselines import read_by_rules
from models.layout import CHANGING, Layout, read, states_of
from models.oddness import Columns
from models.persistence import lasting
from models.rare_kernels import OVERLAP
from models.scorers import Floats, Place, Scorer, place, quiet_rows
from models.summaries import summarise, summary_columns
from models.tails import Tails

Rows = NDArray[np.int64]
Block = tuple[Rows, Rows]  # quiet rows to learn from, rows to tell
# Rows to learn from to their part of the matrix, and what gives others' with what was fitted on them (templates)
MakeRows = Callable[[Rows], tuple[pd.DataFrame, Callable[[Rows], pd.DataFrame]]]
Make = Callable[[], Scorer]

BLOCKS = 4
_EMBARGO = 80 * 60_000_000_000  # an hour, and what a row looks back for what is gone
_LONGEST = 2 * _EMBARGO  # of a time without windows, as blocks count it
_MOST = 10.0  # surprise of a metric: beyond that a tail is only drawn
_MOST_ROWS = 60_000  # quiet rows that label-free models learn from
_AT_ONCE = 10_000  # rows at a time: a matrix of thousands of columns is not held whole


class Signs(NamedTuple):
    """What models read of rows, and what the rows are."""

    metrics: pd.DataFrame  # [n, M] surprise of each metric
    lasting: pd.DataFrame  # [n, M], what of it the last windows agree on, metric by metric
    summary: pd.DataFrame
    plain: pd.DataFrame  # the few columns that rules and baselines read
    opinions: dict[str, Floats]  # raw scores of the label-free models
    where: Place
    changing: NDArray[np.bool_]
    which: NDArray[np.int32]  # [n, M], number of the matrix's column that a metric's surprise comes from

    def rows(self, wanted: Rows) -> Signs:
        """The signs of some rows."""
        summary = self.summary.iloc[wanted]
        return Signs(
            self.metrics.iloc[wanted],
            self.lasting.iloc[wanted],
            summary,
            self.plain.iloc[wanted],
            {name: score[wanted] for name, score in self.opinions.items()},
            place(summary),
            self.changing[wanted],
            self.which[wanted],
        )

    def followed_by(self, other: Signs) -> Signs:
        """These rows and another cluster's; what that one has no column for is NaN."""
        summary = _under(self.summary, other.summary)
        changing = np.concatenate([self.changing, other.changing])
        which = np.full((len(changing), self.which.shape[1]), -1, dtype=np.int32)
        which[: len(self.which)] = self.which
        return Signs(
            _under(self.metrics, other.metrics),
            _under(self.lasting, other.lasting),
            summary,
            _under(self.plain, other.plain),
            {name: np.concatenate([score, other.opinions[name]]) for name, score in self.opinions.items()},
            place(summary),
            changing,
            which,
        )


def _under(own: pd.DataFrame, more: pd.DataFrame) -> pd.DataFrame:
    return pd.concat([own, more.reindex(columns=own.columns)])


class Told(NamedTuple):
    """Signs of rows, each told by others, and the calibration of metrics over all of them."""

    signs: Signs
    tails: Tails


def blocks(where: Place, quiet: NDArray[np.bool_], count: int = BLOCKS) -> list[Block]:
    """Deal each node's time in as many spans as there are blocks; a block's quiet rows keep the embargo.

    Spans are whole, not days dealt out like cards: a job scores weeks after its training, and a metric that drifts has
    to look as odd here as it will then. At any moment the nodes are in different blocks, so that each is told by some
    that lived through the same hour.
    """
    embargo = _EMBARGO if (where.node != "").any() else 0
    moments, at = np.unique(where.end, return_inverse=True)
    gone = np.minimum(np.diff(moments, prepend=moments[:1]), _LONGEST)  # a hole of a month is no span of its own
    since = np.cumsum(gone)[at]
    slot = max(-(-(int(since.max(initial=0)) + 1) // count), embargo, 1)
    number, code = since // slot, pd.factorize(where.node, sort=True)[0]
    into = since % slot
    found = []
    for block in range(count):
        mine = (number + code) % count == block
        after = ((number - 1 + code) % count == block) & (into <= embargo)
        ahead = ((number + 1 + code) % count == block) & (slot - into <= embargo)
        learn = np.flatnonzero(quiet & ~mine & ~after & ~ahead)
        if mine.any():
            found.append((learn if len(learn) > 1 else np.flatnonzero(quiet), np.flatnonzero(mine)))
    return found


def _portions(tell: Rows, where: Place) -> list[Rows]:
    """A block's rows in portions of whole nodes: no node's window is looked back to from another portion."""
    if len(tell) <= _AT_ONCE:
        return [tell]
    codes = pd.factorize(where.node[tell])[0]
    part = (np.cumsum(np.bincount(codes)) - 1) // _AT_ONCE
    return [tell[part[codes] == number] for number in np.unique(part)]


def by_nodes(where: Place, most: int = _AT_ONCE) -> list[Rows]:
    """Rows in parts of whole nodes, about so many rows in each, by node and time."""
    codes = pd.factorize(where.node[where.order])[0]
    part = (np.cumsum(np.bincount(codes)) - 1) // most
    return [where.order[part[codes] == number] for number in np.unique(part)]


class Teller:
    """Fitted on quiet rows.

    Attributes
    ----------
    names
        Columns of the matrix.
    columns, tails
        The two layers of a metric's surprise, see `oddness`.
    models
        Label-free models by name, and what they read: "X", "plain", or a part of `Signs`.
    """

    def __init__(
        self, names: list[str], columns: Columns, tails: Tails, models: dict[str, Scorer], reads: Mapping[str, str]
    ) -> None:
        self.names, self.columns, self.tails = names, columns, tails
        self.models, self.reads = models, dict(reads)
        self.layout: Layout = read(names)

    @classmethod
    def fit(
        cls,
        X: pd.DataFrame,
        y: Any = None,
        make: Mapping[str, Make] | None = None,
        reads: Mapping[str, str] | None = None,
        told: Told | None = None,
    ) -> tuple[Self, Told]:
        """Learn from the quiet rows; also what is told of each row by what was learned on other days.

        Parameters
        ----------
        make, reads
            How to make each label-free model, and what it reads.
        told
            Of these very rows, where it is known already.
        """
        made, reading = make or {}, reads or {}
        quiet = quiet_rows(y, len(X))
        if told is None:
            told = apart(of_matrix(X), place(X), quiet, made, reading)
        rows = np.flatnonzero(quiet)
        names = [str(name) for name in X.columns]
        columns = _columns(X, _heard(X, rows, read(names)), read(names))
        teller = cls(names, columns, told.tails, {}, reading)
        for name, how in made.items():
            seen = X if reading[name] == "X" else getattr(told.signs, reading[name])
            teller.models[name] = how().fit(seen.iloc[_thin(rows, _MOST_ROWS)])
        return teller, told

    def signs(self, X: pd.DataFrame) -> Signs:
        """What is told of rows that the fit did not see."""
        return self.signs_by(lambda _: X, place(X), [np.arange(len(X))])

    def signs_by(self, ask: Callable[[Rows], pd.DataFrame], where: Place, parts: Sequence[Rows] | None = None) -> Signs:
        """The same of rows that are asked for a few nodes at a time, by their numbers in ``where``."""
        shape = (len(where.node), len(self.layout.metrics))
        odd, which = np.empty(shape, dtype=np.float32), np.empty(shape, dtype=np.int32)
        opinions = {name: np.zeros(shape[0]) for name in self.models}
        kept = []
        parts = by_nodes(where) if parts is None else parts
        for some in parts:
            X = ask(some)
            values, here = _values(X), place(X)
            raw, which[some] = self.columns.metrics(values, here.node, states_of(values, self.layout), self.layout)
            odd[some] = np.minimum(self.tails.surprise(raw), _MOST)
            for name, model in self.models.items():
                if self.reads[name] == "X":
                    opinions[name][some] = model.score(X)
            kept.append(_kept(X, self.layout))
        plain = kept[0] if len(kept) == 1 else pd.concat(kept).iloc[np.argsort(np.concatenate(parts))]
        signs = _of_kept(plain, odd, which, self.layout, where)
        for name, model in self.models.items():
            if self.reads[name] != "X":
                opinions[name] = model.score(getattr(signs, self.reads[name]))
        return signs._replace(opinions=opinions)

    def to_state(self) -> dict[str, Any]:
        """Arrays, text and JSON."""
        return {
            "names": self.names,
            "columns": self.columns.to_state(),
            "tails": self.tails.to_state(),
            "models": {name: model.to_state() for name, model in self.models.items()},
            "reads": self.reads,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any], kinds: Mapping[str, type[Scorer]]) -> Self:
        """What `to_state` gave."""
        models = {name: kinds[name].from_state(part) for name, part in state["models"].items()}
        names = [str(name) for name in state["names"]]
        tables, tails = Columns.from_state(state["columns"]), Tails.from_state(state["tails"])
        return cls(names, tables, tails, models, state["reads"])


def of_matrix(X: pd.DataFrame) -> MakeRows:
    """Rows of a matrix in which nothing is fitted."""
    return lambda learn: (X.iloc[learn], lambda wanted: X.iloc[wanted])


def apart(
    rows: MakeRows,
    where: Place,
    quiet: NDArray[np.bool_],
    make: Mapping[str, Make],
    reads: Mapping[str, str],
    most: int = 50_000,
) -> Told:
    """Tell each block's rows by what was learned on the other blocks.

    Parameters
    ----------
    rows
        Gives the matrix's rows to learn from and to tell, with what is fitted in them (templates) fitted on the former.
    most
        About how many quiet rows a block learns from.
    """
    deal = [(_thin(learn, most), tell) for learn, tell in blocks(where, quiet)]
    opinions = {name: np.zeros(len(where.node)) for name in make}
    whole = {name: how for name, how in make.items() if reads[name] == "X"}
    odd, which, kept, layout = _measured(rows, deal, where, whole, opinions)
    heard = ~unheard(kept)
    every = Tails.fit(odd, quiet & heard, overlap=OVERLAP, logged=True)
    apiece = [Tails.fit(odd, learn[heard[learn]], overlap=OVERLAP, logged=True) for learn, _ in deal]
    for tails, (_, tell) in zip(apiece, deal, strict=True):
        for low in range(0, len(tell), _AT_ONCE):  # in place: with a million windows such a table takes gigabytes
            some = tell[low : low + _AT_ONCE]
            odd[some] = np.minimum(tails.surprise(odd[some]), _MOST)
    signs = _of_kept(kept, odd, which, layout, where)
    for name in make:
        if reads[name] != "X":
            seen = getattr(signs, reads[name])
            for learn, tell in deal:
                opinions[name][tell] = make[name]().fit(seen.iloc[_thin(learn, _MOST_ROWS)]).score(seen.iloc[tell])
    return Told(signs._replace(opinions=opinions), every)


def _measured(
    rows: MakeRows, deal: Sequence[Block], where: Place, make: Mapping[str, Make], opinions: Mapping[str, Floats]
) -> tuple[NDArray[np.float32], NDArray[np.int32], pd.DataFrame, Layout]:
    """For every row raw surprises and their columns [n, M], the columns that are kept, and the layout.

    Opinions of the models that read the matrix itself are filled. The matrix's rows are held a portion at a time.
    """
    raw, which = np.empty((0, 0), dtype=np.float32), np.empty((0, 0), dtype=np.int32)
    parts: list[pd.DataFrame] = []
    order: list[Rows] = []
    layout = read([])
    for learn, tell in deal:
        known, ask = rows(learn)
        layout = read([str(name) for name in known.columns])
        columns = _columns(known, _heard(known, np.arange(len(known)), layout), layout)
        models = {name: how().fit(known.iloc[_thin(np.arange(len(known)), _MOST_ROWS)]) for name, how in make.items()}
        del known
        for some in _portions(tell, where):
            asked = ask(some)
            values, here = _values(asked), place(asked)
            found, column = columns.metrics(values, here.node, states_of(values, layout), layout)
            if not order:
                raw = np.empty((len(where.node), found.shape[1]), dtype=np.float32)
                which = np.empty(raw.shape, dtype=np.int32)
            raw[some], which[some] = found, column
            for name, model in models.items():
                opinions[name][some] = model.score(asked)
            parts.append(_kept(asked, layout))
            order.append(some)
    return raw, which, pd.concat(parts).iloc[np.argsort(np.concatenate(order))], layout


def _of_kept(
    kept: pd.DataFrame, odd: NDArray[np.float32], which: NDArray[np.int32], layout: Layout, where: Place
) -> Signs:
    """Signs of rows of which the matrix's few columns are kept that signs are made of beside the surprises."""
    small = read([str(name) for name in kept.columns])
    return signs_of(kept, _values(kept), odd, which, replace(layout, states=small.states, group=small.group), where)


def signs_of(
    X: pd.DataFrame,
    values: NDArray[Any],
    odd: NDArray[np.float32],
    which: NDArray[np.int32],
    layout: Layout,
    where: Place,
) -> Signs:
    """Signs from the metrics' surprises."""
    names = [metric.name for metric in layout.metrics]
    states = list(layout.states)
    kept = _kept(X, layout)
    lasts = lasting(odd, where, unheard(kept))
    table = np.hstack([summarise(odd, lasts, layout, where), values[:, states].astype(np.float32)])
    columns = [*summary_columns(), *(str(X.columns[number]) for number in states)]
    return Signs(
        pd.DataFrame(odd, index=X.index, columns=names, copy=False),
        pd.DataFrame(lasts, index=X.index, columns=names, copy=False),
        pd.DataFrame(table, index=X.index, columns=columns, copy=False),
        kept,
        {},
        where,
        states_of(values, layout) == CHANGING,
        which,
    )


def unheard(plain: pd.DataFrame) -> NDArray[np.bool_]:
    """Rows of a node that is down, stale or short of a GPU: what has failed can't be foretold, and a rule tells it."""
    try:
        return np.asarray(status(plain) != "ok") | (plain[LOST_GPUS].to_numpy() > 0)
    except KeyError:  # a matrix without presence columns
        return np.zeros(len(plain), dtype=bool)


def _heard(X: pd.DataFrame, rows: Rows, layout: Layout) -> Rows:
    """Of rows those whose surprises count at all: what a node shows on its way down is no measure for one that works.

    A scrape that fails lasts as long as its timeout: among such values a slow one is nothing.
    """
    heard = rows[~unheard(_kept(X, layout))[rows]]
    return heard if len(heard) > 1 else rows


def joined(
    signs: Signs, y: Any, weight: Floats | None, others: Sequence[tuple[Signs, Any]]
) -> tuple[Signs, Any, Floats | None]:
    """Rows with other clusters' behind them; metrics are matched by name."""
    for other, labels in others:
        weight = np.ones(len(y)) if weight is None else weight
        signs = signs.followed_by(other)
        y, weight = np.concatenate([y, labels]), np.concatenate([weight, np.ones(len(labels))])
    return signs, y, weight


def _kept(X: pd.DataFrame, layout: Layout) -> pd.DataFrame:
    """The few columns that say where a node is or that rules read."""
    names = [str(name) for name in X.columns]
    kept = read_by_rules(tuple(names)) | {names[number] for number in layout.states}
    found = X.iloc[:, [number for number, name in enumerate(names) if name in kept]]
    return found.copy()  # columns side by side would be a view, and keep the whole matrix


def _columns(X: pd.DataFrame, rows: Rows, layout: Layout) -> Columns:
    if len(rows) < 2:
        raise InputError(f"{len(rows)} quiet windows are too few to learn from; export a longer span")
    part = X.iloc[rows] if len(rows) < len(X) else X
    values = _values(part)
    return Columns.fit(values, place(part).node, states_of(values, layout), layout)


def _values(X: pd.DataFrame) -> NDArray[np.float32]:
    """Float32, what is infinite NaN."""
    values = X.to_numpy(dtype=np.float32)
    return np.where(np.isinf(values), np.float32(np.nan), values) if np.isinf(values).any() else values


def _thin(rows: Rows, most: int) -> Rows:
    """Evenly spaced runs of twelve rows, about ``most`` rows in all: neighbours in time stay together."""
    every = max(1, -(-len(rows) // most))
    return rows[(rows // 12) % every == 0] if every > 1 else rows
