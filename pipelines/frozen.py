"""What training freezes and scoring thaws: the line-up of models with all that a live window needs to be judged.

Everything a score depends on is in the bundle: the settings its rows are made by, the templates, the threshold, the
GPUs and nodes that were known, and what was usual, for the reasons in words.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features.settings import FeatureSettings, LabelSettings
from features.tables import GPUS, Matrix, ModelError, conform
from models.bundle import Bundle
from pipelines.config import Config, IngestSettings

if TYPE_CHECKING:  # the job starts without them: see `thaw`
    from features.templates import Templates
    from models.lineup import Lineup

_TEMPLATES, _GPUS = "templates.json", "gpus.json"
_USUAL_ROWS = 20_000  # quiet rows that medians are taken of


@dataclass(frozen=True)
class Terms:
    """What a bundle's manifest says, without its models: enough to ask for samples, and to tell of rows once judged."""

    features: FeatureSettings
    labels: LabelSettings
    ingest: IngestSettings
    metrics: tuple[str, ...]
    step_ns: int
    quantiles: tuple[float, ...]
    digest: str

    def configure(self, config: Config) -> Config:
        """The settings in force, with those the models were trained by in place of what they were since."""
        return config.model_copy(update={"features": self.features, "labels": self.labels, "ingest": self.ingest})


@dataclass(frozen=True)
class Usual:
    """What quiet rows of training held: the share of rows with a value, and medians, of the fleet and of each node.

    Attributes
    ----------
    present, fleet
        [C].
    nodes, own
        Names, and [nodes, C].
    """

    columns: tuple[str, ...]
    present: NDArray[np.float32]
    fleet: NDArray[np.float32]
    nodes: tuple[str, ...]
    own: NDArray[np.float32]

    @classmethod
    def of(cls, X: pd.DataFrame) -> Usual:
        """Learn from quiet rows."""
        rows = X.iloc[:: max(1, len(X) // _USUAL_ROWS)]
        present = X.notna().mean().to_numpy(dtype=np.float32)
        own = rows.groupby(level=0, sort=True).median()
        names = tuple(str(name) for name in own.index)
        fleet = rows.median().to_numpy(dtype=np.float32)
        return cls(tuple(map(str, X.columns)), present, fleet, names, own.to_numpy(dtype=np.float32))

    def of_node(self, node: str, column: str) -> float:
        """The node's own median of a column, the fleet's for a node that is new; NaN for a column that is."""
        if column not in self.columns:
            return float("nan")
        at = self.columns.index(column)
        return float(self.own[self.nodes.index(node), at] if node in self.nodes else self.fleet[at])

    def missing(self, X: pd.DataFrame, usual_share: float = 0.9) -> NDArray[np.float64]:
        """For each row the share of the columns usually there that have no value [n]."""
        there = [name for name, share in zip(self.columns, self.present, strict=True) if share >= usual_share]
        if not there:
            return np.zeros(len(X))
        return X.reindex(columns=there).isna().mean(axis=1).to_numpy(dtype=np.float64)

    def to_state(self) -> dict[str, Any]:
        """Arrays and names."""
        return {
            "columns": list(self.columns),
            "present": self.present,
            "fleet": self.fleet,
            "nodes": list(self.nodes),
            "own": self.own,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Usual:
        """What `to_state` gave."""
        return cls(tuple(state["columns"]), state["present"], state["fleet"], tuple(state["nodes"]), state["own"])


@dataclass(frozen=True)
class Frozen:
    """A line-up and its surroundings.

    Attributes
    ----------
    champion, threshold
        The model of the line-up that decides, and above what it alarms.
    nodes, heard
        All nodes of the training, and those that had ever logged.
    metrics
        Names of the exported metrics it learned from, to ask a server for.
    quantiles
        Of the champion's scores in training, at 0, 1, ... 100 %.
    """

    lineup: Lineup
    usual: Usual
    templates: Templates | None
    gpus: pd.DataFrame
    features: FeatureSettings
    labels: LabelSettings
    ingest: IngestSettings
    champion: str
    threshold: float
    nodes: tuple[str, ...]
    heard: tuple[str, ...]
    metrics: tuple[str, ...]
    step_ns: int
    quantiles: tuple[float, ...]
    digest: str = ""

    @property
    def terms(self) -> Terms:
        """Of a bundle of it."""
        return Terms(self.features, self.labels, self.ingest, self.metrics, self.step_ns, self.quantiles, self.digest)

    def configure(self, config: Config) -> Config:
        """As `Terms.configure`."""
        return self.terms.configure(config)

    def columns(self) -> list[str]:
        """The matrix's columns, in order."""
        return self.lineup.columns()

    def align(self, matrix: Matrix) -> pd.DataFrame:
        """The matrix's rows with exactly the columns of the training; one that is not there any more is NaN."""
        X = matrix.X.reindex(columns=self.columns())
        return pd.DataFrame(X.to_numpy(), index=X.index, columns=X.columns, copy=False)  # a row of it is read at once

    def contents(self, extra: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, bytes]]:
        """Facts, states and files for `models.bundle.write`; ``extra`` facts are for people."""
        facts = {
            **extra,
            "columns": self.columns(),
            "champion": self.champion,
            "threshold": self.threshold,
            "nodes": list(self.nodes),
            "heard": list(self.heard),
            "metrics": list(self.metrics),
            "step_ns": self.step_ns,
            "quantiles": list(self.quantiles),
            "features": self.features.model_dump(mode="json"),
            "labels": self.labels.model_dump(mode="json"),
            "ingest": self.ingest.model_dump(mode="json"),
        }
        files = {_GPUS: self.gpus.to_json(orient="records", date_format="iso", date_unit="ns").encode()}
        if self.templates is not None:
            files[_TEMPLATES] = self.templates.to_json().encode()
        return facts, {"lineup": self.lineup.to_state(), "usual": self.usual.to_state()}, files


def terms(facts: dict[str, Any], digest: str) -> Terms:
    """What a manifest says.

    Raises
    ------
    ModelError
        It does not hold what this foreshock expects.
    """
    try:
        return Terms(
            features=FeatureSettings.model_validate(facts["features"]),
            labels=LabelSettings.model_validate(facts["labels"]),
            ingest=IngestSettings.model_validate(facts["ingest"]),
            metrics=tuple(facts["metrics"]),
            step_ns=int(facts["step_ns"]),
            quantiles=tuple(facts["quantiles"]),
            digest=digest,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _lacking(error) from error


def _lacking(error: Exception) -> ModelError:
    return ModelError(f"the bundle lacks what this foreshock needs ({error}); train again")


def thaw(bundle: Bundle) -> Frozen:
    """A checked bundle as something that scores.

    Raises
    ------
    ModelError
        It does not hold what this foreshock expects.
    """
    from features.templates import Templates  # noqa: PLC0415  # loaded while the server works
    from models.lineup import Lineup  # noqa: PLC0415  # as above

    said = terms(bundle.facts, bundle.digest)
    try:
        facts = bundle.facts
        rows = pd.DataFrame(json.loads(bundle.files[_GPUS]))
        for name in ("first", "last"):
            if len(rows):
                rows[name] = pd.to_datetime(rows[name], utc=True)
        return Frozen(
            lineup=Lineup.from_state(bundle.states["lineup"]),
            usual=Usual.from_state(bundle.states["usual"]),
            templates=Templates.from_json(bundle.files[_TEMPLATES]) if _TEMPLATES in bundle.files else None,
            gpus=conform(rows, GPUS) if len(rows) else GPUS.empty(),
            features=said.features,
            labels=said.labels,
            ingest=said.ingest,
            champion=str(facts["champion"]),
            threshold=float(facts["threshold"]),
            nodes=tuple(facts["nodes"]),
            heard=tuple(facts["heard"]),
            metrics=said.metrics,
            step_ns=said.step_ns,
            quantiles=said.quantiles,
            digest=said.digest,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _lacking(error) from error
