"""The models by the names users know, fitted together: what they share is learned once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features.families import FAMILIES
from features.tables import InputError, UsageError
from models.baselines import BestMetric, Clock, Columns, Guess, HandRules, LastXid, WorstNode, new_template, staleness
from models.blend import Blend
from models.calibration import Calibration
from models.layout import parts
from models.pu import WeakPositive
from models.rules import REASON
from models.scorers import Floats, Place, Reason, Scorer, halves, quiet_rows
from models.settings import ModelSettings
from models.statistical import OddOneOut, RobustZ
from models.summaries import Signs, Summaries
from models.supervised import Boosted
from models.surprise import Surprise
from models.unsupervised import Forest, Residual

_SCORERS: dict[str, type[Scorer]] = {
    "lightgbm": Boosted,
    "pu": WeakPositive,
    "isolation-forest": Forest,
    "pca": Residual,
    "robust-z": RobustZ,
    "surprise": Surprise,
    "odd-one-out": OddOneOut,
    "random": Guess,
    "worst-node": WorstNode,
    "last-xid": LastXid,
    "clock-and-node": Clock,
    "best-metric": BestMetric,
    "staleness": Columns,
    "new-template": Columns,
    "hand-rules": HandRules,
}
# Which part of `Signs` a model reads; the others read the matrix itself.
_READS = {
    "lightgbm": "summary",
    "pu": "summary",
    "isolation-forest": "summary",
    "pca": "metrics",
    "surprise": "lasting",
}
_READS["best-metric"] = "metrics"
BASELINES = frozenset(
    {"random", "worst-node", "last-xid", "clock-and-node", "best-metric", "staleness", "new-template", "hand-rules"}
)
BLENDED = ("surprise", "lightgbm", "pu", "isolation-forest")
NAMES = ("blend", *_SCORERS)
# Windows of a node that a score depends on, the last its own: signs look back at most five, the odd one out as far,
# and persistence of scores two more. The hand-written rules count remaps over a day; no other model needs more.
LOOK_BACK = 8


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
    return made.set_params(**{k: getattr(settings, k) for k in ("seed", "threads") if k in known})  # type: ignore[no-any-return]  # scikit-learn has no types


class _Fitted(NamedTuple):
    model: Scorer
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
        self.summaries = Summaries()
        self.fitted: dict[str, _Fitted] = {}
        for name in names:
            if name != "blend":
                scorer(name, settings)

    @property
    def _members(self) -> list[str]:
        """What is fitted: the names, and what the blend blends."""
        extra = BLENDED if "blend" in self.names else ()
        return list(dict.fromkeys([name for name in self.names if name != "blend"] + list(extra)))

    def fit(self, X: pd.DataFrame, y: Any, weight: NDArray[np.float64] | None = None) -> Self:
        """Learn from labelled rows (1, 0, NaN).

        Raises
        ------
        InputError
            No model at all could be fitted.
        """
        signs = self.summaries.signs_of_fit(X, y, weight)
        calibrated = {}
        for name in self._members:
            seen = _seen(name, X, signs)
            try:
                model, raw = _fit_and_tell(scorer(name, self.settings), seen, y, weight, signs.where)
            except InputError as error:
                self.skipped[name] = str(error)
                continue
            held = None
            if name not in BASELINES:
                held = Calibration.fit(raw, signs.where, signs.changing, y, self.settings.persistence)
                calibrated[name] = held.apply(raw, signs.where, signs.changing)
            self.fitted[name] = _Fitted(model, held)
        if "blend" in self.names:
            self._fit_blend(calibrated, signs, y)
        if not self.fitted:
            raise InputError(f"no model could be fitted: {next(iter(self.skipped.values()))}")
        return self

    def _fit_blend(self, calibrated: Mapping[str, Floats], signs: Signs, y: Any) -> None:
        opinions = pd.DataFrame({name: calibrated[name] for name in BLENDED if name in calibrated})
        if opinions.empty:
            self.skipped["blend"] = "none of its models could be fitted"
            return
        model = Blend().fit(opinions)
        held = Calibration.fit(model.score(opinions), signs.where, signs.changing, y, windows=1)
        self.fitted["blend"] = _Fitted(model, held)

    def score(self, X: pd.DataFrame, began: NDArray[np.bool_] | None = None) -> pd.DataFrame:
        """Scores in [0, 1], a column a model, with the rows' index.

        Parameters
        ----------
        X
            Rows with a node's windows over time; persistence looks back over what is given.
        began
            `rules.began` of the rows: where it holds every model but a baseline says 1.
        """
        return self._score(X, self.summaries.signs(X), began)

    def _score(self, X: pd.DataFrame, signs: Signs, began: NDArray[np.bool_] | None) -> pd.DataFrame:
        out: dict[str, Floats] = {}
        for name, (model, held) in self.fitted.items():
            if name == "blend":
                continue
            raw = model.score(_seen(name, X, signs))
            out[name] = raw if held is None else held.apply(raw, signs.where, signs.changing)
        if "blend" in self.fitted:
            model, held = self.fitted["blend"]
            raw = model.score(pd.DataFrame({name: out[name] for name in model.columns()}))
            out["blend"] = raw if held is None else held.apply(raw, signs.where, signs.changing)
        if began is not None:
            out = {name: s if name in BASELINES else np.where(began, 1.0, s) for name, s in out.items()}
        return pd.DataFrame({name: out[name] for name in self.names if name in out}, index=X.index)

    def explain(
        self, name: str, X: pd.DataFrame, most: int = 5, began: NDArray[np.bool_] | None = None
    ) -> list[list[Reason]]:
        """For each row the columns of the matrix that drove a model's score, the strongest first."""
        signs = self.summaries.signs(X)
        blamed = [name] * len(X)
        if name == "blend":
            strongest = self.fitted["blend"].model.explain(self._opinions(X, signs), 1)
            blamed = [row[0][0] if row else "surprise" for row in strongest]
        which = self.summaries.worst_columns(X)
        out: list[list[Reason]] = [[] for _ in range(len(X))]
        for model in set(blamed) & set(self.fitted):
            rows = np.flatnonzero(np.array(blamed) == model)
            for row, reasons in zip(
                rows, self.fitted[model].model.explain(_seen(model, X, signs).iloc[rows], most), strict=True
            ):
                out[row] = self._in_columns(reasons, signs.metrics.to_numpy()[row], which[row])
        for row in np.flatnonzero(began) if began is not None and name not in BASELINES else ():
            out[row].insert(0, (REASON, 1.0))
        return out

    def _opinions(self, X: pd.DataFrame, signs: Signs) -> pd.DataFrame:
        out = {}
        for name in self.fitted["blend"].model.columns():
            model, held = self.fitted[name]
            raw = model.score(_seen(name, X, signs))
            out[name] = raw if held is None else held.apply(raw, signs.where, signs.changing)
        return pd.DataFrame(out)

    def _in_columns(self, reasons: list[Reason], odd: NDArray[np.float32], which: NDArray[np.int32]) -> list[Reason]:
        """Reasons in summaries or metrics as reasons in columns: the oddest of the family, the oddest of the metric."""
        columns, metrics = self.summaries.columns(), self.summaries.layout.metrics
        place = {metric.name: number for number, metric in enumerate(metrics)}
        out: dict[str, float] = {}
        for name, effect in reasons:
            found = name
            if name in place:
                found = columns[which[place[name]]]
            elif parts(name)[0] == "family":
                family = parts(name)[1][0]
                own = [n for n, m in enumerate(metrics) if family == "all" or FAMILIES[m.family] == family]
                found = columns[which[max(own, key=lambda n: odd[n])]] if own else name
            out[found] = max(out.get(found, 0.0), effect)
        return list(out.items())

    def to_state(self) -> dict[str, Any]:
        """Arrays, text and JSON."""
        return {
            "names": list(self.names),
            "settings": self.settings.model_dump(mode="json"),
            "skipped": self.skipped,
            "summaries": self.summaries.to_state(),
            "fitted": {
                name: {"model": model.to_state(), "calibration": None if held is None else held.to_state()}
                for name, (model, held) in self.fitted.items()
            },
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """The line-up that `to_state` was called on, with the same scores to the last bit."""
        made = cls(tuple(state["names"]), ModelSettings.model_validate(state["settings"]))
        made.skipped = dict(state["skipped"])
        made.summaries = Summaries.from_state(state["summaries"])
        kinds: dict[str, type[Scorer]] = {**_SCORERS, "blend": Blend}
        for name, part in state["fitted"].items():
            held = part["calibration"]
            made.fitted[name] = _Fitted(
                kinds[name].from_state(part["model"]), None if held is None else Calibration.from_state(held)
            )
        return made


def _seen(name: str, X: pd.DataFrame, signs: Signs) -> pd.DataFrame:
    """What a model reads."""
    return getattr(signs, _READS[name]) if name in _READS else X


def _fit_and_tell(
    model: Scorer, seen: pd.DataFrame, y: Any, weight: NDArray[np.float64] | None, where: Place
) -> tuple[Scorer, Floats]:
    """The fitted model, and scores of the rows to calibrate it with.

    A model of labels knows the rows it learned from; its scores are those of two models, each of the other half of
    the days. Where a half holds no warning, the model's own have to do.
    """
    model.fit(seen, y, weight)
    own = model.score(seen)
    if not model.labelled:
        return model, own
    second, label = halves(where), np.asarray(y, dtype=np.float64)
    told = own.copy()
    for half in (False, True):
        learn, tell = np.flatnonzero(second == half), np.flatnonzero(second != half)
        if not len(tell) or not (label[learn] == 1).any() or not quiet_rows(label[learn], len(learn)).any():
            return model, own
        other = type(model)(**model.get_params())
        other.fit(seen.iloc[learn], label[learn], None if weight is None else weight[learn])
        told[tell] = other.score(seen.iloc[tell])
    return model, told
