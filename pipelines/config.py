"""One TOML file to frozen, validated sections; what is not said there has the default."""

from __future__ import annotations

import textwrap
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

    step: Duration = timedelta(seconds=30)
    """The store's grid; fixed when a store is made."""
    timezone: str = ""
    """Of logs that name none; "" takes UTC and says so once."""
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
    """The first of these labels that holds a usable name is the node; "localhost", bare addresses and names of the
    exporter's own pod are passed over."""
    gpu_labels: tuple[str, ...] = ("UUID", "uuid", "gpu_uuid")
    """The first of these labels that is there is the GPU's UUID."""
    pci_labels: tuple[str, ...] = ("pci_bus_id", "pci.bus_id", "pci_address")
    """The first of these labels that is there is the GPU's PCI address."""
    strip_domain: bool = True
    """n7.example.net in a log joins n7 in the metrics."""
    aliases: dict[str, str] = Field(default_factory=dict)
    """A name or address as exported: the canonical node. Two names of one machine are two nodes without it."""
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
    """Labels that say who used a GPU or who asked, not what was measured."""
    gpu_dropped_labels: tuple[str, ...] = ("gpu", "device", "minor_number", "name")
    """Renumbered when a GPU is gone."""
    csv_columns: tuple[str, ...] = ()
    """Columns of a CSV that has no header line, as in the format= of VictoriaMetrics' /api/v1/export/csv."""
    max_line_bytes: int = Field(default=1 << 20, ge=1024)
    """Longer log lines are cut here."""
    memory_bytes: int = Field(default=128 << 20, ge=16 << 20)
    """Samples held before they are written to parts."""


class TrackingSettings(Settings):
    """Where experiments go."""

    uri: str = "sqlite:///mlruns/mlflow.db"
    """MLflow's server or database."""
    artifacts: Path = Path("mlruns/artifacts")
    """Where plots, bundles and tables of runs go, when the address is a database."""
    experiment: str = "foreshock"
    """The experiment that runs are put in."""
    registered_model: str = "foreshock"
    """The name of the model in the registry."""


class ScoringSettings(Settings):
    """How the batch job pages."""

    out: Path = Path("foreshock-scores")
    """Scores and the job's state, unless --out says another."""
    late_windows: int = Field(default=3, ge=1)
    """A late run catches up at most this many window ends."""
    hold_off: Duration = timedelta(minutes=60)
    """After an alert: no second page for the node within this."""
    clear_windows: int = Field(default=3, ge=1)
    """Calm windows before an alert resolves."""
    clear_ratio: float = Field(default=0.8, gt=0, le=1)
    """Of the threshold: below this a window is calm."""
    fleet_share: float = Field(default=0.3, gt=0, le=1)
    """More nodes than this at once: one page, "model suspect"."""
    missing_share: float = Field(default=0.2, ge=0, le=1)
    """Of a bundle's columns: with more missing, no score."""
    stale_after: Duration = timedelta(minutes=10)
    """Samples older than this are no state of a node."""


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
    """Every setting as TOML that `load` reads back, what it means in a comment above it."""
    return "\n".join(_section((), config)) + "\n"


def _section(names: tuple[str, ...], section: Settings) -> list[str]:
    """Lines of a section and of those within it."""
    lines = [f"[{'.'.join(names)}]"] if names else []
    within: list[str] = []
    values = section.model_dump(mode="json", exclude_none=True)
    for name, field in type(section).model_fields.items():
        held = getattr(section, name)
        if isinstance(held, Settings):
            within += ["", *_comment(type(held).__doc__ or ""), *_section((*names, name), held)]
            continue
        lines += _comment(field.description or "")
        # a setting without a value is told, since TOML has no null
        lines.append(f"{name} = {_value(values[name])}" if name in values else f"# {name} =")
    return [*lines, *within] if names else within[1:]


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(" ".join(text.split()), 110)]


def _value(value: object) -> str:
    """A value as TOML, a table within braces."""
    if isinstance(value, dict):
        inside = (f"{_value(str(key))} = {_value(item)}" for key, item in value.items())
        return f"{{ {', '.join(inside)} }}" if value else "{}"
    if isinstance(value, list):
        return f"[{', '.join(_value(item) for item in value)}]"
    return tomli_w.dumps({"x": value}).removeprefix("x = ").rstrip("\n")
