"""One TOML file to frozen, validated sections; what is not said there has the default."""

from __future__ import annotations

import tomllib
from datetime import timedelta
from pathlib import Path

import tomli_w
from pydantic import Field, ValidationError

from features import catalogue
from features.settings import CheckpointSettings, Duration, FeatureSettings, LabelSettings, RetrySettings, Settings
from features.tables import UsageError
from models.settings import EvaluationSettings, ModelSettings


class IngestSettings(Settings):
    """What the labels and lines of an export mean."""

    step: Duration = timedelta(seconds=30)  # the store's grid; fixed when a store is made
    timezone: str = ""  # of logs that name none; "" takes UTC and says so once
    # The first of these labels that holds a usable name is the node; "localhost", bare addresses and names
    # of the exporter's own pod are passed over.
    node_labels: tuple[str, ...] = (
        "node",
        "kubernetes_node",
        "nodename",
        "exported_instance",
        "Hostname",
        "hostname",
        "host",
        "instance",
    )
    gpu_labels: tuple[str, ...] = ("UUID", "uuid", "gpu_uuid")
    pci_labels: tuple[str, ...] = ("pci_bus_id", "pci.bus_id", "pci_address")
    strip_domain: bool = True  # n7.example.net in a log joins n7 in the metrics
    aliases: dict[str, str] = Field(default_factory=dict)  # a name or address as exported: the canonical node
    # Labels that say who used a GPU or who asked, not what was measured
    dropped_labels: tuple[str, ...] = (
        "job",
        "instance",
        "pod",
        "namespace",
        "container",
        "exported_job",
        "exported_pod",
        "exported_namespace",
        "exported_container",
        "exported_instance",
        "pod_uid",
        "service",
        "endpoint",
        "prometheus",
        "prometheus_replica",
        "replica",
        "cluster",
        "modelName",
        "driver_version",
        "DCGM_FI_DRIVER_VERSION",
        "GPU_I_PROFILE",
        "err_msg",
    )
    gpu_dropped_labels: tuple[str, ...] = ("gpu", "device", "minor_number", "name")  # renumbered when a GPU is gone
    # Columns of a CSV that has no header line, as in the format= of VictoriaMetrics' /api/v1/export/csv
    csv_columns: tuple[str, ...] = ()
    max_line_bytes: int = Field(default=1 << 20, ge=1024)
    memory_bytes: int = Field(default=128 << 20, ge=16 << 20)  # samples held before they are written to parts


class TrackingSettings(Settings):
    """Where experiments go."""

    uri: str = "sqlite:///mlruns/mlflow.db"
    artifacts: Path = Path("mlruns/artifacts")
    experiment: str = "foreshock"
    registered_model: str = "foreshock"


class ScoringSettings(Settings):
    """How the batch job pages."""

    out: Path = Path("foreshock-scores")  # scores and the job's state, unless --out says another
    late_windows: int = Field(default=3, ge=1)  # a late run catches up at most this many window ends
    hold_off: Duration = timedelta(minutes=60)  # after an alert: no second page for the node within this
    clear_windows: int = Field(default=3, ge=1)  # calm windows before an alert resolves
    clear_ratio: float = Field(default=0.8, gt=0, le=1)  # of the threshold: below this a window is calm
    fleet_share: float = Field(default=0.3, gt=0, le=1)  # more nodes than this at once: one page, "model suspect"
    missing_share: float = Field(default=0.2, ge=0, le=1)  # of a bundle's columns: with more missing, no score
    stale_after: Duration = timedelta(minutes=10)


class Config(Settings):
    """All sections."""

    ingest: IngestSettings = IngestSettings()
    features: FeatureSettings = FeatureSettings()
    labels: LabelSettings = LabelSettings()
    models: ModelSettings = ModelSettings()
    evaluation: EvaluationSettings = EvaluationSettings()
    tracking: TrackingSettings = TrackingSettings()
    scoring: ScoringSettings = ScoringSettings()
    retries: RetrySettings = RetrySettings()
    checkpoints: CheckpointSettings = CheckpointSettings()


def load(path: Path | None = None) -> Config:
    """Read a configuration file; without one, the defaults.

    Raises
    ------
    UsageError
        The file can't be read, is no TOML, or holds an unknown key or a wrong value.
    """
    if path is None:
        return Config()
    try:
        return _with_catalogue(Config.model_validate(tomllib.loads(path.read_text(encoding="utf-8"))), path.parent)
    except OSError as error:
        raise UsageError(f"{path}: can't be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not TOML: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"{path}: {where}: {first['msg']}; 'foreshock config show' prints every key") from error


def _with_catalogue(config: Config, folder: Path) -> Config:
    """The configuration with the codes of the user's catalogue file; those in the configuration itself go before.

    Raises
    ------
    UsageError
        The file can't be read or breaks its form.
    """
    said = config.labels.catalogue
    if said is None:
        return config
    path = folder / said
    try:
        codes = catalogue.parse(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UsageError(f"labels.catalogue: {path}: can't be read: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"labels.catalogue: {path}: {error}") from error
    labels = config.labels.model_copy(update={"codes": {**codes, **config.labels.codes}})
    return config.model_copy(update={"labels": labels})


def to_toml(config: Config) -> str:
    """Every setting as TOML that `load` reads back."""
    return tomli_w.dumps(config.model_dump(mode="json", exclude_none=True))
