"""Experiments in MLflow: runs, their folds, what they produced, and which bundle is the champion.

The only file that imports mlflow, and only inside functions: the import takes seconds that a scoring job with a
bundle at hand should not spend.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import logging
import math
import os
import re
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import unquote, urlsplit

import pandas as pd

from features.tables import ModelError, UpstreamError, UsageError
from models import processes

PROCESS_TAG = "foreshock.process"
DIGEST_TAG = "foreshock.manifest_sha256"
_LONGEST_PARAM = 500  # what older servers take; MLflow 3 cuts at 6,000 without a word
_LONGEST_TAG = 5000  # MLflow cuts at 8,000 without a word
_BATCH = {"metrics": 1000, "params": 100, "tags": 100}  # MLflow's own limits of one log_batch
_LOCK_SECONDS = 180.0  # a fresh database takes about 10 s; eight starters wait for one another
ENVIRONMENT = {
    # Telemetry would be a request to a third party, and the others print to stdout, which is for data.
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    # MLflow's own 7 retries of 120 s each keep a command silent for a quarter of an hour
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
}


class Dataset(NamedTuple):
    """What a run learned from."""

    name: str
    source: str
    digest: str


class Version(NamedTuple):
    """A registered bundle."""

    name: str
    version: str
    source: str
    digest: str

    @property
    def uri(self) -> str:
        """As users write it."""
        return f"models:/{self.name}/{self.version}"


@contextlib.contextmanager
def quiet(what: str, uri: str) -> Iterator[None]:
    """Run MLflow without its chatter; what it raises becomes one line."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SQLAlchemy's deprecations are MLflow's to heed
        from mlflow.exceptions import MlflowException  # noqa: PLC0415  # seconds of import, see above
        from sqlalchemy.exc import SQLAlchemyError  # noqa: PLC0415  # comes with mlflow

        for name in ("mlflow", "alembic"):
            logging.getLogger(name).setLevel(logging.ERROR)
        try:
            yield
        except (MlflowException, SQLAlchemyError, OSError) as error:
            first = str(error).strip().splitlines()[0][:300] if str(error).strip() else type(error).__name__
            raise UpstreamError(f"MLflow at {shown(uri)} could not {what}: {shown(first)}") from error


def shown(text: str) -> str:
    """The text with any password in an address taken out."""
    return re.sub(r"://[^/\s]+@", "://***@", text)


@contextlib.contextmanager
def _locked(path: Path | None) -> Iterator[None]:
    """Hold a file lock: creating MLflow's tables is a race that all starters but one lose."""
    if path is None:
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + _LOCK_SECONDS
    with path.open("a") as handle:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise UpstreamError(f"{path} is locked for {_LOCK_SECONDS:.0f} s; is another run stuck?") from None
                time.sleep(0.05)
        yield


def _database(uri: str) -> Path | None:
    """The file of a SQLite address, None for any other."""
    if not uri.startswith("sqlite:"):
        return None
    path = urlsplit(uri).path
    return Path(unquote(path[1:])) if path.startswith("/") else None


class Tracker:
    """One tracking server or database.

    Parameters
    ----------
    uri
        ``sqlite:///relative/or//absolute.db``, ``http://host:port``, or what else MLflow takes.
    artifacts
        Folder for the files of new experiments; None leaves the choice to the server.

    Raises
    ------
    UpstreamError
        The server can't be reached or refuses.
    UsageError
        The address is of a kind that MLflow no longer writes to (a folder).
    """

    def __init__(self, uri: str, artifacts: Path | None = None) -> None:
        if urlsplit(uri).scheme in ("", "file"):
            raise UsageError(
                f"tracking address {uri!r} is a folder; write sqlite:///{uri}/mlflow.db or http://host:port"
            )
        self.uri = uri
        self._artifacts = None if urlsplit(uri).scheme in ("http", "https") else artifacts
        database = _database(uri)
        self._lock = database.with_name(database.name + ".lock") if database else None
        try:
            with _locked(self._lock), quiet("be opened", uri):
                from mlflow import MlflowClient  # noqa: PLC0415  # seconds of import, see above

                self.client: Any = MlflowClient(tracking_uri=uri, registry_uri=uri)
                # the address is taken on trust until the first request
                self.client.search_experiments(max_results=1)
        except ModuleNotFoundError as error:
            raise UsageError(f"{shown(uri)} needs a driver that is not here: pip install {error.name}") from error
        except OSError as error:
            raise UpstreamError(f"MLflow at {shown(uri)} could not be opened: {error}") from error

    def start(
        self, experiment: str, name: str, *, tags: Mapping[str, str] | None = None, datasets: Sequence[Dataset] = ()
    ) -> Run:
        """Begin a run; runs that a killed process of this host left behind are closed first."""
        with quiet(f"start a run in experiment {experiment!r}", self.uri):
            place = self._experiment(experiment)
            self._close_dead(place)
            return Run(self.client, self.uri, place, name, tags=tags or {}, datasets=datasets)

    def _experiment(self, name: str) -> str:
        with _locked(self._lock):
            found = self.client.get_experiment_by_name(name)
            if found is None:
                place = None if self._artifacts is None else self._artifacts.resolve().as_uri()
                # else the UI files it under chats and agents
                tags = {"mlflow.experimentKind": "custom_model_development"}
                return str(self.client.create_experiment(name, artifact_location=place, tags=tags))
        if found.lifecycle_stage != "active":
            raise UsageError(f"experiment {name!r} is deleted in MLflow; restore it there or name another")
        return str(found.experiment_id)

    def _close_dead(self, experiment: str) -> None:
        for run in self.client.search_runs([experiment], "attributes.status = 'RUNNING'", max_results=1000):
            if not processes.is_dead(run.data.tags.get(PROCESS_TAG, "")):
                continue
            # it may have ended well since it was listed; the dead change nothing any more
            if self.client.get_run(run.info.run_id).info.status == "RUNNING":
                self.client.set_terminated(run.info.run_id, "KILLED")

    def register(self, run: Run, path: str, name: str, digest: str) -> Version:
        """Register the bundle a run logged under ``path``.

        The first version becomes ``champion``; a later one becomes ``challenger`` and is promoted by hand.
        """
        with _locked(self._lock), quiet(f"register {name}", self.uri):
            if not self.client.search_registered_models(f"name = '{name}'"):
                self.client.create_registered_model(name)
            source = f"{run.artifact_uri}/{path}"
            tags = {DIGEST_TAG: digest}
            made = self.client.create_model_version(name, source=source, run_id=run.run_id, tags=tags)
            aliases = self.client.get_registered_model(name).aliases
            alias = "challenger" if "champion" in aliases else "champion"
            self.client.set_registered_model_alias(name, alias, made.version)
        return Version(name, str(made.version), source, digest)

    def promote(self, name: str, version: str, alias: str) -> Version:
        """Give an alias to a version that exists."""
        found = self.find(f"models:/{name}/{version}")
        with quiet(f"give {name} {version} the alias {alias}", self.uri):
            self.client.set_registered_model_alias(name, alias, found.version)
        return found

    def find(self, model: str) -> Version:
        """The version that ``models:/NAME/3`` or ``models:/NAME@champion`` names.

        Raises
        ------
        UsageError
            The text is neither.
        ModelError
            No such version, or it has no digest to check its files against.
        """
        said = re.fullmatch(r"models:/([^/@]+)(?:/(\d+)|@([A-Za-z0-9_-]+))", model)
        if not said:
            raise UsageError(f"model {model!r} is no models:/NAME/VERSION or models:/NAME@ALIAS")
        name, version, alias = said.groups()
        with quiet(f"look up {model}", self.uri):
            from mlflow.exceptions import MlflowException  # noqa: PLC0415  # seconds of import, see above

            try:
                found = (
                    self.client.get_model_version(name, version)
                    if version
                    else self.client.get_model_version_by_alias(name, alias)
                )
            except MlflowException as error:
                if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE", "NOT_FOUND"):
                    raise ModelError(
                        f"{model} is not in MLflow at {shown(self.uri)}; 'foreshock train' registers one"
                    ) from error
                raise
        digest = found.tags.get(DIGEST_TAG, "")
        if not digest:
            raise ModelError(f"{model} has no tag {DIGEST_TAG}; it was not registered by foreshock")
        return Version(name, str(found.version), found.source, digest)

    def download(self, version: Version, to: Path) -> Path:
        """Copy a version's files into a folder; nothing in them is opened."""
        with quiet(f"download {version.uri}", self.uri):
            from mlflow.artifacts import download_artifacts  # noqa: PLC0415  # seconds of import, see above

            return Path(download_artifacts(artifact_uri=version.source, dst_path=str(to), tracking_uri=self.uri))


class Run:
    """A run in progress; as a context manager it ends FINISHED, FAILED or, when interrupted, KILLED."""

    def __init__(
        self,
        client: Any,
        uri: str,
        experiment: str,
        name: str,
        *,
        tags: Mapping[str, str],
        datasets: Sequence[Dataset] = (),
    ) -> None:
        self.client, self._uri, self._experiment = client, uri, experiment
        full = {PROCESS_TAG: processes.this(), **{key: str(value)[:_LONGEST_TAG] for key, value in tags.items()}}
        made = client.create_run(experiment, run_name=name, tags=full)
        self.run_id = str(made.info.run_id)
        self.artifact_uri = str(made.info.artifact_uri)
        if datasets:
            from mlflow.entities import Dataset as Entity  # noqa: PLC0415  # seconds of import, see above
            from mlflow.entities import DatasetInput  # noqa: PLC0415  # as above

            inputs = [
                # MLflow shows digests of at most 36 characters
                DatasetInput(Entity(d.name, d.digest[:36], "local", json.dumps({"uri": shown(d.source)})), [])
                for d in datasets
            ]
            client.log_inputs(self.run_id, inputs)

    def child(self, name: str, tags: Mapping[str, str] | None = None) -> Run:
        """A run below this one in the UI."""
        with quiet("start a nested run", self._uri):
            tags = {"mlflow.parentRunId": self.run_id, **(tags or {})}
            return Run(self.client, self._uri, self._experiment, name, tags=tags)

    def log(
        self,
        *,
        metrics: Mapping[str, float | None] | None = None,
        params: Mapping[str, object] | None = None,
        tags: Mapping[str, str] | None = None,
        step: int = 0,
    ) -> None:
        """Log in batches.

        A metric that is no finite number becomes a tag ``NAME = n/a`` (MLflow stores infinity as 1.8e308); a
        parameter longer than 500 characters becomes an artifact, its sha256 the parameter.
        """
        from_metrics = {k: "n/a" for k, v in (metrics or {}).items() if v is None or not math.isfinite(v)}
        values = {k: float(v) for k, v in (metrics or {}).items() if v is not None and math.isfinite(v)}
        long = {k: str(v) for k, v in (params or {}).items() if len(str(v)) > _LONGEST_PARAM}
        short = {k: str(v) for k, v in (params or {}).items() if k not in long}
        for key, text in long.items():
            short[key] = "sha256:" + hashlib.sha256(text.encode()).hexdigest()
        if long:
            self.files({f"params/{_safe(key)}.txt": text.encode() for key, text in long.items()})
        labels = {_safe(k): str(v)[:_LONGEST_TAG] for k, v in {**(tags or {}), **from_metrics}.items()}
        with quiet("log", self._uri):
            from mlflow.entities import Metric, Param, RunTag  # noqa: PLC0415  # seconds of import, see above

            now = int(time.time() * 1000)
            for part in _chunks([Metric(_safe(k), v, now, step) for k, v in values.items()], _BATCH["metrics"]):
                self.client.log_batch(self.run_id, metrics=part)
            for part in _chunks([Param(_safe(k), v) for k, v in short.items()], _BATCH["params"]):
                self.client.log_batch(self.run_id, params=part)
            for part in _chunks([RunTag(k, v) for k, v in labels.items()], _BATCH["tags"]):
                self.client.log_batch(self.run_id, tags=part)

    def curve(self, name: str, points: Sequence[tuple[float, float]]) -> None:
        """Log a metric over steps: the step is the first number times 100, which keeps 0.84 apart from 1."""
        with quiet("log", self._uri):
            from mlflow.entities import Metric  # noqa: PLC0415  # seconds of import, see above

            now = int(time.time() * 1000)
            metrics = [Metric(_safe(name), float(y), now, round(x * 100)) for x, y in points if math.isfinite(y)]
            self.client.log_batch(self.run_id, metrics=metrics[: _BATCH["metrics"]])

    def files(self, content: Mapping[str, bytes]) -> None:
        """Log files by their path under the run's artifacts."""
        with tempfile.TemporaryDirectory() as folder:
            for name, data in content.items():
                path = Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            self.folder(Path(folder), "")

    def folder(self, folder: Path, path: str) -> None:
        """Log a folder's files below ``path``."""
        with quiet("log files", self._uri):
            self.client.log_artifacts(self.run_id, str(folder), path or None)

    def table(self, frame: pd.DataFrame, path: str) -> None:
        """Log a frame so that the UI shows it as a table."""
        with quiet("log a table", self._uri):
            self.client.log_table(self.run_id, data=frame, artifact_file=path)

    def end(self, status: str = "FINISHED") -> None:
        """Close the run."""
        with quiet("end a run", self._uri):
            self.client.set_terminated(self.run_id, status)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.end()
            return
        with contextlib.suppress(UpstreamError):  # the first error is the one to tell
            self.end("FAILED" if issubclass(kind, Exception) else "KILLED")


def _safe(key: str) -> str:
    """A key in MLflow's letters, at most the 250 it takes."""
    return re.sub(r"[^\w\-. :/]", "_", key)[:250]


def _chunks(items: list[Any], size: int) -> Iterator[list[Any]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
