"""The small cluster with a model made in a second: the statistic, fitted on the store's own quiet rows."""

from pathlib import Path
from typing import Any

import numpy as np

from features import log_columns
from features.masking import lines_table
from features.matrix import Lines, with_logs
from features.windows import as_ns
from models import bundle
from models.lineup import Lineup
from pipelines import experiment, featurise
from pipelines.config import Config
from pipelines.frozen import Frozen, Usual
from pipelines.score import Source, score
from pipelines.store import Store
from tests import small_cluster


def config() -> Config:
    whole = Config()
    return whole.model_copy(update={"models": whole.models.model_copy(update={"names": ("robust-z",), "threads": 1})})


def freeze(store: Store, settings: Config) -> Frozen:
    """What `pipelines.train` would freeze, without judging anything."""
    history = featurise.historic_matrix(store, settings, featurise.nothing_past(), workers=1)
    lines = lines_table(store.logs(*store.span()), settings.features.templates).table
    quiet = history.windows[as_ns(history.windows["end"]) <= small_cluster.START + 3_600_000_000_000]
    templates = log_columns.learn(lines, quiet, settings.features.templates)
    heard = tuple(node for node in store.nodes() if store.log_days(node))
    X = with_logs(history, Lines(lines, templates, heard)).X
    lineup = Lineup(("robust-z",), settings.models).fit(X, np.zeros(len(X)))
    scores = lineup.score(X)["robust-z"].to_numpy()
    return Frozen(
        lineup=lineup,
        usual=Usual.of(X),
        templates=templates,
        gpus=store.gpus(),
        features=settings.features,
        labels=settings.labels,
        ingest=settings.ingest,
        champion="robust-z",
        threshold=float(np.quantile(scores, 0.97)),
        nodes=tuple(store.nodes()),
        heard=heard,
        metrics=experiment.metric_names(store),
        step_ns=store.step_ns,
        quantiles=tuple(np.quantile(scores, np.linspace(0, 1, 101)).tolist()),
    )


class World:
    """A store and a bundle."""

    def __init__(self, folder: Path) -> None:
        self.store = folder / "store"
        self.config = config()
        self.frozen = freeze(small_cluster.store(self.store), self.config)
        self.bundle = folder / "bundle"
        self.digest = bundle.write(self.bundle, *self.frozen.contents({}))

    def score(self, out: Path, at: Any, **how: Any) -> dict[str, Any]:
        return score(Source(store=self.store), self.config, out=out, at=at, bundle_dir=self.bundle, **how)
