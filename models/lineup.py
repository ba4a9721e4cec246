"""The models by the names users know, fitted together: what they share is learned once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features.families import family
from features.tables import InputError, UsageError
from models import rules
from models.baselines import BestMetric, Clock, Columns, Guess, HandRules, LastXid, WorstNode, new_template, staleness
from models.blend import Blend
from models.calibration import Calibration
from models.deep import TadGan
from models.layout import parts
from models.pu import WeakPositive
from models.scorers import Floats, Reason, Scorer
from models.scorers import strongest as top
from models.settings import ModelSettings
from models.statistical import OddOneOut, RobustZ
from models.supervised import Boosted
from models.surprise import Surprise
from models.telling import Make, Signs, Teller, Told, joined, unheard
from models.unsupervised import Forest, Residual

_SCORERS: dict[str, type[Scorer]] = {
    "lightgbm": Boosted,
    "pu": WeakPositive,
    "isolation-forest": Forest,
    "pca": Residual,
    "robust-z": RobustZ,
    "surprise": Surprise,
    "odd-one-out": OddOneOut,
    "tadgan": TadGan,
    "random": Guess,
    "worst-node": WorstNode,
    "last-xid": LastXid,
    "clock-and-node": Clock,
    "best-metric": BestMetric,
    "staleness": Columns,
    "new-template": Columns,
    "hand-rules": HandRules,
}
# What a model reads: the matrix itself, or a part of `Signs`.
_READS = {
    "lightgbm": "summary",
    "pu": "summary",
    "isolation-forest": "summary",
    "pca": "metrics",
    "tadgan": "metrics",
    "robust-z": "X",
    "surprise": "lasting",
    "odd-one-out": "X",
    "best-metric": "metrics",
}
BASELINES = frozenset(
    {"random", "worst-node", "last-xid", "clock-and-node", "best-metric", "staleness", "new-template", "hand-rules"}
)
BLENDED = ("surprise", "pu", "lightgbm")
# Needs no labels, and is so soon learned that each fold may learn it from all the quiet hours it has: ranks of blocks,
# made from three quarters of them, are on scales of their own
_ANEW = frozenset({"surprise"})
NAMES = ("blend", *_SCORERS)
# Windows of a node that a score depends on, the last its own: signs look back 23, persistence of scores two more. Only
# the hand-written rules look further: they count remaps over a day
LOOK_BACK = 26


def scorer(name: str, settings: ModelSettings) -> Scorer:
    """An unfitted model.

    Raises
    ------
    UsageError
        No model has this name.
    """
    if name not in _SCORERS:
        raise UsageError(f"no model is called {name!r}; there are {', '.join(NAMES)}")
    made = {"staleness": staleness, "new-template": new_template}.get(name, _SCORERS[name])()
    known = made.get_params()
    shared = {k: getattr(settings, k) for k in ("seed", "threads") if k in known}
    return made.set_params(**shared, **options(name, settings, known))  # type: ignore[no-any-return]  # scikit-learn has no types


def options(name: str, settings: ModelSettings, known: Mapping[str, Any]) -> dict[str, int | float]:
    """A model's own parameters from the settings.

    Raises
    ------
    UsageError
        It has no such parameter.
    """
    own = settings.options.get(name, {})
    strange = sorted(own.keys() - known.keys())
    if strange:
        raise UsageError(f"models.options.{name}: {strange[0]!r} is none of {', '.join(sorted(known))}")
    return own


def members(names: tuple[str, ...]) -> list[str]:
    """What is fitted: the names, and what the blend blends."""
    extra = BLENDED if "blend" in names else ()
    return list(dict.fromkeys([name for name in names if name != "blend"] + list(extra)))


def label_free(names: tuple[str, ...], settings: ModelSettings) -> tuple[dict[str, Make], dict[str, str]]:
    """How each of the models that are learned once, without labels, is made, and what it reads."""
    free = [name for name in members(names) if not _SCORERS[name].labelled and name not in _ANEW]
    return {name: partial(scorer, name, settings) for name in free}, {n: _READS.get(n, "plain") for n in free}


class _Fitted(NamedTuple):
    model: Scorer | None  # of a label-free model the teller has it
    calibration: Calibration | None  # a baseline's score is taken as it is


class Lineup:
    """Several models on one matrix.

    Parameters
    ----------
    names
        From `NAMES`.
    settings
        Seed, threads and persistence.

    Attributes
    ----------
    skipped
        After `fit`: model to why it could not be fitted.
    """

    def __init__(self, names: tuple[str, ...], settings: ModelSettings) -> None:
        self.names = names
        self.settings = settings
        self.skipped: dict[str, str] = {}
        self.teller: Teller | None = None
        self.fitted: dict[str, _Fitted] = {}
        for name in names:
            if name != "blend":
                scorer(name, settings)

    def fit(
        self,
        X: pd.DataFrame,
        y: Any,
        weight: NDArray[np.float64] | None = None,
        told: Told | None = None,
        others: Sequence[tuple[Signs, Any]] = (),
    ) -> Self:
        """Learn from labelled rows (1, 0, NaN).

        Parameters
        ----------
        told
            Of these very rows, where it is known already.
        others
            What is told of other clusters' rows, and their labels: to learn from only.

        Raises
        ------
        InputError
            No model at all could be fitted.
        """
        self.teller, told = Teller.fit(X, y, *label_free(self.names, self.settings), told)
        return self.learn(told.signs, y, weight, others)

    def learn(
        self,
        signs: Signs,
        y: Any,
        weight: NDArray[np.float64] | None = None,
        others: Sequence[tuple[Signs, Any]] = (),
    ) -> Self:
        """Learn from what is told of labelled rows; such a line-up judges signs, and can't score a matrix."""
        own = len(signs.where.node)
        signs, y, weight = joined(signs, y, weight, others)
        # Of a node that is not heard of nobody can say whether it is calm: such windows are no measure of quiet time
        heard = np.where(unheard(signs.plain), np.nan, y) if y is not None else None
        calibrated = {}
        for name in members(self.names):
            model = None
            if name in signs.opinions:
                raw = signs.opinions[name]
            else:
                model = scorer(name, self.settings)
                try:
                    seen = getattr(signs, _READS.get(name, "plain"))
                    known = y if name in BASELINES else heard
                    # what is usual here is not learned from other clusters
                    only = own if name in _ANEW else len(seen)
                    raw = _fit(model, seen, known, weight, only, apart=name not in BASELINES)
                except InputError as error:
                    self.skipped[name] = str(error)
                    continue
            held = None
            if name not in BASELINES:
                # what lasts needs no more persistence
                agreed = 1 if _READS.get(name) == "lasting" else self.settings.persistence
                held = Calibration.fit(raw, signs.where, _changing(name, signs), heard, agreed)
                calibrated[name] = held.apply(raw, signs.where, _changing(name, signs))
            self.fitted[name] = _Fitted(model, held)
        if "blend" in self.names:
            self._fit_blend(calibrated, signs, heard)
        if not self.fitted:
            raise InputError(f"no model could be fitted: {next(iter(self.skipped.values()))}")
        return self

    def _fit_blend(self, calibrated: Mapping[str, Floats], signs: Signs, y: Any) -> None:
        known = {name: calibrated[name] for name in BLENDED if name in calibrated}
        opinions = pd.DataFrame(known, index=signs.summary.index)
        if opinions.empty:
            self.skipped["blend"] = "none of its models could be fitted"
            return
        made = Blend()
        model = made.set_params(**options("blend", self.settings, made.get_params())).fit(opinions, y)
        held = Calibration.fit(model.score(opinions), signs.where, _changing("blend", signs), y, windows=1)
        self.fitted["blend"] = _Fitted(model, held)

    def columns(self) -> list[str]:
        """The matrix's columns, in order; none for a line-up that has learned from signs only."""
        return [] if self.teller is None else self.teller.names

    def signs(self, X: pd.DataFrame) -> Signs:
        """What is told of a matrix's rows."""
        if self.teller is None:
            raise InputError("this line-up has learned from signs only; fit it on a matrix to score one")
        return self.teller.signs(X)

    def score(self, X: pd.DataFrame, began: NDArray[np.bool_] | None = None) -> pd.DataFrame:
        """Scores in [0, 1], a column a model, with the rows' index.

        Parameters
        ----------
        X
            Rows with a node's windows over time; persistence looks back over what is given.
        began
            `rules.began` of the rows: where it holds every model but a baseline says 1.
        """
        return self.judge(self.signs(X), began)

    def judge(self, signs: Signs, began: NDArray[np.bool_] | None = None) -> pd.DataFrame:
        """Scores of told rows."""
        out = {name: self._told(name, signs) for name in self.fitted if name != "blend"}
        out |= {"blend": self._told("blend", signs, out)} if "blend" in self.fitted else {}
        silent = unheard(signs.plain)
        out = {name: np.minimum(s, rules.MOST) for name, s in out.items()}
        for name in out.keys() - BASELINES:
            out[name] = np.where(silent, 0.0, out[name])
            if began is not None:
                out[name] = np.where(began, rules.SCORE, out[name])
        return pd.DataFrame({name: out[name] for name in self.names if name in out}, index=signs.summary.index)

    def _told(self, name: str, signs: Signs, others: Mapping[str, Floats] | None = None) -> Floats:
        """Calibrated scores of one model; the blend reads the others'."""
        model, held = self.fitted[name]
        if name == "blend":
            raw = self._blend().score(self._opinions(signs, others))
        else:
            raw = signs.opinions[name] if model is None else model.score(getattr(signs, _READS.get(name, "plain")))
        return raw if held is None else held.apply(raw, signs.where, _changing(name, signs))

    def _blend(self) -> Scorer:
        model = self.fitted["blend"].model
        assert model is not None  # noqa: S101  # for the type checker: the blend is kept here
        return model

    def _opinions(self, signs: Signs, others: Mapping[str, Floats] | None = None) -> pd.DataFrame:
        known = others or {}
        return pd.DataFrame(
            {name: known[name] if name in known else self._told(name, signs) for name in self._blend().columns()}
        )

    def _seen(self, name: str, signs: Signs, X: pd.DataFrame | None = None) -> pd.DataFrame | None:
        """What a model reads; None where that is the matrix and there is none."""
        part = _READS.get(name, "plain")
        return X if part == "X" else getattr(signs, part)

    def explain(
        self, name: str, X: pd.DataFrame, most: int = 5, began: NDArray[np.bool_] | None = None
    ) -> list[list[Reason]]:
        """For each row the columns of the matrix that drove a model's score, the strongest first."""
        return self.explain_told(name, self.signs(X), [str(one) for one in X.columns], most, began, X)

    def explain_told(
        self,
        name: str,
        signs: Signs,
        columns: list[str],
        most: int = 5,
        began: NDArray[np.bool_] | None = None,
        X: pd.DataFrame | None = None,
        only: NDArray[np.int64] | None = None,
    ) -> list[list[Reason]]:
        """The same of told rows, with the names of the matrix's columns; with ``only`` of these rows, in this order.

        Without the matrix a model that reads nothing else is explained by the metrics that are odd.
        """
        asked = np.arange(len(signs.summary)) if only is None else np.asarray(only)
        blamed = [name] * len(asked)
        if name == "blend":
            strongest = self._blend().explain(self._opinions(signs).iloc[asked], 1)
            blamed = [row[0][0] if row else BLENDED[0] for row in strongest]
        out: list[list[Reason]] = [[] for _ in blamed]
        metrics = {str(metric): number for number, metric in enumerate(signs.metrics.columns)}
        for one in set(blamed) & set(self.fitted):
            places = np.flatnonzero(np.array(blamed) == one)
            rows = asked[places]
            model, seen = self.fitted[one].model, self._seen(one, signs, X)
            if model is None and self.teller is not None:
                model = self.teller.models[one]
            if model is None or seen is None:
                found = top(signs.lasting.to_numpy()[rows], [str(metric) for metric in signs.lasting.columns], most)
            elif name == "blend":
                found = model.explain(seen.iloc[rows], most)  # what it blends is judged row by row
            else:
                whole = model.explain(seen, most)  # what a model read of earlier windows is part of why
                found = [whole[row] for row in rows]
            for place, row, reasons in zip(places, rows, found, strict=True):
                out[place] = _in_columns(reasons, signs, int(row), columns, metrics)
        for place in np.flatnonzero(began[asked]) if began is not None and name not in BASELINES else ():
            out[place].insert(0, (rules.REASON, 1.0))
        return out

    def to_state(self) -> dict[str, Any]:
        """Arrays, text and JSON."""
        if self.teller is None:
            raise InputError("this line-up has learned from signs only; fit it on a matrix to keep it")
        return {
            "names": list(self.names),
            "settings": self.settings.model_dump(mode="json"),
            "skipped": self.skipped,
            "teller": self.teller.to_state(),
            "fitted": {
                name: {
                    "model": None if model is None else model.to_state(),
                    "calibration": None if held is None else held.to_state(),
                }
                for name, (model, held) in self.fitted.items()
            },
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """The line-up that `to_state` was called on, with the same scores to the last bit."""
        made = cls(tuple(state["names"]), ModelSettings.model_validate(state["settings"]))
        made.skipped = dict(state["skipped"])
        kinds: dict[str, type[Scorer]] = {**_SCORERS, "blend": Blend}
        made.teller = Teller.from_state(state["teller"], kinds)
        for name, part in state["fitted"].items():
            model, held = part["model"], part["calibration"]
            made.fitted[name] = _Fitted(
                None if model is None else kinds[name].from_state(model),
                None if held is None else Calibration.from_state(held),
            )
        return made


def _changing(name: str, signs: Signs) -> NDArray[np.bool_]:
    """Windows that are judged among their like, as the work changes in them.

    None where the score is of what lasts: it says next to nothing of this very window, and what has lasted for hours
    is rare among the windows in which a job ends only because there are few of these.
    """
    lasts = name == "blend" or _READS.get(name) == "lasting"
    return np.zeros_like(signs.changing) if lasts else signs.changing


def _fit(
    model: Scorer, seen: pd.DataFrame, y: Any, weight: NDArray[np.float64] | None, only: int, *, apart: bool
) -> Floats:
    """Fit a model on the first ``only`` rows; scores of all rows to calibrate it with, if asked."""
    part, known, weighed = seen.iloc[:only], None if y is None else y[:only], None if weight is None else weight[:only]
    if not apart:
        model.fit(part, known, weighed)
        return np.zeros(0)
    told = model.fit_apart(part, known, weighed)
    return told if only == len(seen) else np.concatenate([told, model.score(seen.iloc[only:])])


def _in_columns(
    reasons: list[Reason], signs: Signs, row: int, columns: list[str], metrics: Mapping[str, int]
) -> list[Reason]:
    """Reasons in summaries or metrics as reasons in columns: the oddest of the family, the oddest of the metric."""
    odd = signs.metrics.to_numpy()[row]
    out: dict[str, float] = {}
    for name, effect in reasons:
        own = [metrics[name]] if name in metrics else []
        if parts(name)[0] == "family":
            wanted = parts(name)[1][0]
            own = [number for metric, number in metrics.items() if wanted in ("all", family(metric))]
        best = max(own, key=lambda number: odd[number], default=-1)
        found = columns[signs.which[row, best]] if best >= 0 and signs.which[row, best] >= 0 else name
        out[found] = max(out.get(found, 0.0), effect)
    return list(out.items())
