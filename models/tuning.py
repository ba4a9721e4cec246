"""The search for settings by Optuna; the only file that imports it.

What is searched is kept in a database: a search that was killed goes on where it was, and a trial that its process
left behind is failed and done again.
"""

from __future__ import annotations

import contextlib
import io
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np
import optuna
import pandas as pd
from optuna.exceptions import StorageInternalError
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.exc import SQLAlchemyError

from features.settings import LabelSettings, to_nanoseconds
from features.tables import UpstreamError, UsageError
from features.windows import as_ns
from models import evaluation, processes
from models.settings import EvaluationSettings, ModelSettings
from models.tracking import shown

PROCESS = "foreshock.process"
_DONE = (TrialState.COMPLETE, TrialState.PRUNED)
_HEARTBEAT_S, _GRACE_S = 60, 180  # a trial of another host that is silent for so long has died
_STARTUP = 5  # trials before one may be cut short

Values = dict[str, float]
# Gives the worth so far after each inner fold; the last is the trial's.
Steps = Callable[[ModelSettings], Iterator[float]]


class Knob(NamedTuple):
    """One setting and where it is searched: ``persistence``, or a model's parameter as ``model.parameter``."""

    name: str
    low: float
    high: float
    whole: bool = True
    log: bool = False


SPACE = (
    Knob("persistence", 1, 6),
    Knob("lightgbm.trees", 30, 240, log=True),
    Knob("lightgbm.leaves", 3, 24),
    Knob("lightgbm.least", 2, 12),
    Knob("lightgbm.share", 0.005, 0.1, whole=False, log=True),
    Knob("pu.rounds", 1, 4),
    Knob("blend.support", 0.0, 0.6, whole=False),
)


class Trial(NamedTuple):
    """One try; ``worth`` is None unless it was completed."""

    number: int
    state: str  # complete | pruned | fail
    worth: float | None
    values: Values
    seconds: float | None


class Found(NamedTuple):
    """What a search came to; ``best`` is empty, and ``worth`` None, when no trial was completed."""

    best: Values
    worth: float | None
    trials: list[Trial]
    pictures: dict[str, bytes]


def space_of(names: tuple[str, ...]) -> tuple[Knob, ...]:
    """The knobs that these models have."""
    return tuple(knob for knob in SPACE if "." not in knob.name or knob.name.partition(".")[0] in names)


def apply(base: ModelSettings, values: Mapping[str, float]) -> ModelSettings:
    """The settings with these values in place of their own."""
    options = {name: dict(own) for name, own in base.options.items()}
    update: dict[str, Any] = {}
    for name, value in values.items():
        model, _, parameter = name.rpartition(".")
        if model:
            options.setdefault(model, {})[parameter] = value
        else:
            update[parameter] = value
    return base.model_copy(update={**update, "options": options})


def worth(
    predictions: pd.DataFrame,
    failures: pd.DataFrame,
    length: int,
    days: float,
    labels: LabelSettings,
    settings: EvaluationSettings,
) -> list[float]:
    """For each failure in the scored time how cheaply it is caught before, from 0 (never) to 1 (for nothing).

    ``1 / (1 + c / budget)`` with c the false alarms a day of the highest threshold that catches it: a half at the
    budget. Unlike "caught or not" it says of two settings that both miss which one is nearer.

    Parameters
    ----------
    length
        Of a window in nanoseconds.
    days
        Monitored days that the rows stand for.
    """
    truth = evaluation.judged_failures(predictions, failures, labels)
    ground = evaluation.survey(predictions, truth, length, labels)
    score = predictions["score"].to_numpy(dtype=np.float64)[ground.order]
    merge = to_nanoseconds(settings.merge)
    out = []
    for number in range(len(truth.begin)):
        ahead = score[(ground.failure == number) & (ground.zone == evaluation.BEFORE)]
        if not len(ahead):
            continue
        best = float(ahead.max())
        cost = evaluation.false_alarms(ground, np.flatnonzero(score >= best), merge) / days
        out.append(1 / (1 + cost / settings.budget_per_day) if best > 0 else 0.0)
    return out


def days_of(windows: pd.DataFrame) -> float:
    """Days in which at least one node was watched."""
    moments = np.unique(as_ns(windows["end"]))
    return float(len(moments) * np.diff(moments).min() / 86_400e9) if len(moments) > 1 else 0.0


def search(
    study: str,
    storage: str,
    trials: int,
    steps: Steps,
    base: ModelSettings,
    *,
    deadline: float = float("inf"),
    draw: bool = False,
) -> Found:
    """Try settings until so many trials are done, or the time is up.

    Parameters
    ----------
    study
        Its name in the database; trials that are there count.
    deadline
        On the clock of `time.monotonic`.
    draw
        Also make Optuna's plots, which takes seconds.

    Raises
    ------
    UsageError
        The storage's address is not one.
    UpstreamError
        The database can't be reached.
    """
    with _database(storage):
        found = _open(study, storage, base.seed)
        bury(found)
        knobs = space_of(base.names)

        def objective(trial: optuna.Trial) -> float:
            trial.set_user_attr(PROCESS, processes.this())
            value = 0.0
            for step, value in enumerate(steps(apply(base, _ask(trial, knobs)))):  # the last is the trial's
                trial.report(value, step)
                if trial.should_prune():
                    raise optuna.TrialPruned
            return value

        left, time_left = trials - len(_done(found)), deadline - time.monotonic()
        if left > 0 and time_left > 0:
            timeout = None if time_left == float("inf") else time_left
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of what Optuna calls experimental
                found.optimize(objective, n_trials=left, timeout=timeout)
        done = _done(found)
        whole = [trial for trial in done if trial.state == TrialState.COMPLETE]
        best = max(whole, key=lambda trial: (trial.value, -trial.number), default=None)
        return Found(
            best={} if best is None else dict(best.params),
            worth=None if best is None else best.value,
            trials=[_told(trial) for trial in found.get_trials(deepcopy=False) if trial.state.is_finished()],
            pictures=_pictures(found) if draw and len(whole) > 1 else {},
        )


def _open(study: str, storage: str, seed: int) -> optuna.Study:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    if storage.startswith("sqlite:///"):
        Path(urlsplit(storage).path[1:] or ".").parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # heartbeats are called experimental
        try:
            kept = optuna.storages.RDBStorage(storage, heartbeat_interval=_HEARTBEAT_S, grace_period=_GRACE_S)
        except RuntimeError as error:  # MLflow notes its version in a table of the same name
            raise UpstreamError(
                f"Optuna's storage {shown(storage)} holds another program's tables; give it a database of its own"
            ) from error
    pruner = optuna.pruners.MedianPruner(n_startup_trials=_STARTUP)
    found = optuna.create_study(
        study_name=study, storage=kept, direction="maximize", pruner=pruner, load_if_exists=True
    )
    # a search that goes on must not ask again what it asked first
    found.sampler = optuna.samplers.TPESampler(seed=seed + len(_done(found)))
    return found


def bury(study: optuna.Study) -> int:
    """Fail the trials whose process has died; how many."""
    dead = [
        trial
        for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        if processes.is_dead(trial.user_attrs.get(PROCESS, ""))
    ]
    for trial in dead:
        study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)  # it may have ended since it was listed
    return len(dead)


def _done(study: optuna.Study) -> list[FrozenTrial]:
    return study.get_trials(deepcopy=False, states=_DONE)


def _ask(trial: optuna.Trial, knobs: tuple[Knob, ...]) -> Values:
    return {
        knob.name: trial.suggest_int(knob.name, int(knob.low), int(knob.high), log=knob.log)
        if knob.whole
        else trial.suggest_float(knob.name, knob.low, knob.high, log=knob.log)
        for knob in knobs
    }


def _told(trial: FrozenTrial) -> Trial:
    seconds = None if trial.duration is None else trial.duration.total_seconds()
    value = trial.value if trial.state == TrialState.COMPLETE else None
    return Trial(trial.number, trial.state.name.lower(), value, dict(trial.params), seconds)


def _pictures(study: optuna.Study) -> dict[str, bytes]:
    """Optuna's own plots as PNG by file name; one that these trials do not support is left out."""
    import matplotlib as mpl  # noqa: PLC0415  # a second of import, for the end of a search

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415  # as above; Optuna draws with it
    from optuna.visualization import matplotlib as drawing  # noqa: PLC0415  # as above

    out = {}
    for name in ("optimization_history", "slice", "parallel_coordinate", "intermediate_values", "param_importances"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # experimental, and matplotlib's of crowded axes
            with contextlib.suppress(ValueError, RuntimeError, ZeroDivisionError):  # as importances of equal values
                getattr(drawing, f"plot_{name}")(study)
                data = io.BytesIO()
                plt.gcf().savefig(data, format="png", dpi=100, bbox_inches="tight", metadata={"Software": None})
                out[f"{name}.png"] = data.getvalue()
        plt.close("all")
    return out


@contextlib.contextmanager
def _database(storage: str) -> Iterator[None]:
    """What goes wrong with the database becomes one line."""
    if "://" not in storage:
        raise UsageError(f"--storage {storage!r} is no address; write sqlite:///FILE or postgresql://HOST/NAME")
    try:
        yield
    except (SQLAlchemyError, StorageInternalError, ImportError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
        raise UpstreamError(f"Optuna's storage {shown(storage)} can't be used: {shown(first)}") from error
