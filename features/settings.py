"""What the features floor can be told, with defaults; `pipelines.config` fills it from one TOML file."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, field_serializer, field_validator

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_duration(text: object) -> timedelta:
    """Read 30s, 20m, 6h or 7d.

    Raises
    ------
    ValueError
        The text is not a whole number with one of these units, or is not above zero.
    """
    if isinstance(text, timedelta):
        return text
    found = re.fullmatch(r"(\d+)([smhd])", str(text).strip())
    if not found or int(found[1]) == 0:
        raise ValueError(f"{text!r} is no duration; write one as 30s, 20m, 6h or 7d")
    return timedelta(seconds=int(found[1]) * _UNITS[found[2]])


def format_duration(span: timedelta) -> str:
    """The shortest exact form: 90 s is 90s, 120 s is 2m."""
    seconds = int(span.total_seconds())
    for unit in "dhm":
        if seconds and seconds % _UNITS[unit] == 0:
            return f"{seconds // _UNITS[unit]}{unit}"
    return f"{seconds}s"


Duration = Annotated[timedelta, BeforeValidator(parse_duration), PlainSerializer(format_duration, return_type=str)]


def to_nanoseconds(span: timedelta) -> int:
    """The span as the arrays count it."""
    return int(span.total_seconds()) * 1_000_000_000


class Settings(BaseModel):
    """Base of all sections: frozen, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class WindowSettings(Settings):
    """Which windows exist."""

    length: Duration = timedelta(minutes=5)
    """How far a window reaches back from its end. What lasts is told by several in a row (`models.persistence`):
    windows that overlap spread a short sign over more of them, and make it fainter in each."""
    stride: Duration = timedelta(minutes=5)
    """A window's end is a multiple of it since 1970."""


class PanelSettings(Settings):
    """How samples become values that can be compared."""

    staleness: Duration = timedelta(minutes=5)
    """A counter's previous sample may be this old."""
    glitch_ratio: float = Field(default=0.05, ge=0, lt=1)
    """A fall of a counter by no more than this share of its value is a glitch (two replicas, a late write), a
    larger one is a reset: DCGM counters start at 0 after a reboot."""
    sum_over: tuple[str, ...] = ("cpu", "core")
    """Labels that are folded by summing: hundreds of series of one meaning."""
    counters: tuple[str, ...] = ()
    """More metric names that count up, as regular expressions."""
    gauges: tuple[str, ...] = ()
    """Names that only look like counters."""
    bounds: dict[str, tuple[float, float]] = Field(default_factory=dict)
    """Metric regex: lowest and highest real value."""


def _no_parameters(calculators: object) -> object:
    """TOML has no null: there an empty list says that a calculator takes no parameters."""
    if isinstance(calculators, dict):
        return {name: parameters or None for name, parameters in calculators.items()}
    return calculators


def _to_toml(calculators: dict[str, list[dict[str, Any]] | None]) -> dict[str, list[dict[str, Any]]]:
    return {name: parameters or [] for name, parameters in calculators.items()}


# tsfresh's own form of settings: a calculator's name, and the parameters it is called with
Calculators = Annotated[
    dict[str, list[dict[str, Any]] | None], BeforeValidator(_no_parameters), PlainSerializer(_to_toml)
]


class SignalSettings(Settings):
    """Which tsfresh columns a metric gets; the same form as tsfresh's own settings dictionaries."""

    gauge: Calculators = Field(
        default_factory=lambda: {
            "mean": None,
            "maximum": None,
            "minimum": None,
            "standard_deviation": None,
            "linear_trend": [{"attr": "slope"}],
        }
    )
    """tsfresh calculators of a gauge, and the parameters of each."""
    counter: Calculators = Field(
        default_factory=lambda: {"sum_values": None, "maximum": None, "standard_deviation": None}  # type: ignore[arg-type]  # None is allowed
    )
    """Of a counter's increases per step."""


class TemplateSettings(Settings):
    """Drain3's parameters, and what a line is before it sees it."""

    similarity: float = Field(default=0.7, gt=0, lt=1)
    """Drain3's own 0.4 and 4 make "link up" and "link down" one template once addresses and numbers are masked."""
    depth: int = Field(default=5, ge=3)
    """Of Drain3's tree."""
    max_children: int = Field(default=100, ge=2)
    """Of a node of Drain3's tree."""
    max_clusters: int = Field(default=4000, ge=1)
    """Most templates that are kept."""
    max_texts: int = Field(default=4000, ge=1)
    """Different masked lines that are mined: bounds the time of a flood."""
    flood_lines: int = Field(default=200, ge=10)
    """Of a node between two window edges; more are only counted."""
    max_line_characters: int = Field(default=2000, ge=80)
    """A longer line is cut before it is masked."""


class PeerSettings(Settings):
    """Whom a node is compared with."""

    least: int = Field(default=3, ge=2)
    """Fewer peers than this say nothing."""


class CodeSettings(Settings):
    """What the user's own catalogue says of an XID; "" leaves what is known of it."""

    mnemonic: str = ""
    meaning: str = ""
    action: str = ""
    kind: Literal["", "hardware", "degradation", "application", "metadata", "unknown"] = ""
    paper: bool | None = None


class LabelSettings(Settings):
    """When a window counts as a warning."""

    horizon: Duration = timedelta(minutes=60)
    """How long before a failure a window counts as a warning."""
    early: Duration = timedelta(hours=6)
    """A sign may show this long before a failure: earlier than the horizon a window is neither normal nor a warning."""
    gap: Duration = timedelta(minutes=1)
    """An alarm nearer to the failure than this is no longer ahead of it."""
    grace: Duration = timedelta(minutes=10)
    """An alarm this late still counts as "at"."""
    recovery: Duration = timedelta(minutes=60)
    """After the last line: neither normal nor a warning. An incident given (ingest --incidents) that starts within it
    is the same failure."""
    incident_gap: Duration = timedelta(minutes=3)
    """XIDs of a node nearer than this are one incident."""
    cascade_gap: Duration = timedelta(seconds=15)
    """The same code that begins on other nodes within this is one incident, as are programs failing on three nodes."""
    preset: str = "hardware"
    """Which codes are failures: hardware, paper or all."""
    hardware: tuple[int, ...] = ()
    """Overrides of the catalogue: codes to count as hardware."""
    not_hardware: tuple[int, ...] = ()
    """Codes that are not to count as hardware."""
    catalogue: Path | None = None
    """A CSV with the columns of features/xid_catalog.csv (code and any of the others), whose rows go before its
    rows; a relative path is taken from the configuration file's folder."""
    codes: dict[int, CodeSettings] = Field(default_factory=dict)
    """The same by code; what that file says is put here."""
    given: Literal["merge", "instead"] = "merge"
    """What incidents that were given (ingest --incidents) are beside those found: more of them, or the only ones."""

    @field_serializer("codes")
    def _text_keys(self, codes: dict[int, CodeSettings]) -> dict[str, dict[str, Any]]:
        """TOML's keys are text, and it has no null."""
        return {str(code): said.model_dump(mode="json", exclude_none=True) for code, said in codes.items()}


class RetrySettings(Settings):
    """What a retry is, and which policies are tried on the record."""

    chain_gap: Duration = timedelta(hours=12)
    """A job that comes back later than this begins anew."""
    same_job: str = ""
    r"""A regular expression for names that change with every try: its first group is the job, as (.+?)-retry\d+."""
    automatic_within: Duration = timedelta(minutes=15)
    """The 504-GPU study's automatic retries come after 11 minutes (IQR 10-11); a person needs longer."""
    settled: Duration = timedelta(minutes=30)
    """A try that ran this long got going, whatever came later."""
    clock_slack: Duration = timedelta(minutes=2)
    """A retry this much ahead of the end before it: clocks, no overlap."""
    gpus_per_node: int = Field(default=0, ge=0)
    """0: as the store knows; without either only node-hours are told."""
    nodes: int = Field(default=0, ge=0)
    """Of the cluster; 0: those the store has seen."""
    widest: int = Field(default=3, ge=1)
    """Incidents on more nodes than this are a job's, not a node's."""
    exclude_after: tuple[int, ...] = (1, 2, 3)
    """Policies: a node's failures before it is taken out."""
    spare_nodes: tuple[int, ...] = (1, 2, 4, 8)
    """Policies: how many may be out at once."""
    exclude_for: Duration = timedelta(days=14)
    """Policies: how long it is out."""
    busy_percent: float = Field(default=10.0, gt=0, le=100)
    """GPU use above this is work, where no scheduler told."""
    quiet_gap: Duration = timedelta(minutes=5)
    """A break of work shorter than this is the job's own."""

    @field_validator("same_job")
    @classmethod
    def _has_a_group(cls, text: str) -> str:
        try:
            groups = re.compile(text).groups
        except re.error as error:
            raise ValueError(f"{text!r} is no regular expression: {error}") from error
        if text and not groups:
            raise ValueError(f"{text!r} has no group that names the job; write one as (.+?)-retry\\d+")
        return text


class CheckpointSettings(Settings):
    """How saves and loads are told from metrics, and against what they are measured.

    The defaults are those of a study of 63 nodes of 8 GPUs (arXiv 2605.09370); its two thresholds are for the whole
    cluster and are scaled to the nodes that take part.
    """

    save_bytes_per_second: float = Field(default=20e9, gt=0)
    """Written to shared storage by reference_nodes nodes."""
    load_bytes_per_second: float = Field(default=2e9, gt=0)
    """Read from it by them, their GPUs idle."""
    reference_nodes: int = Field(default=63, ge=1)
    """The nodes that the two limits above were stated for."""
    member_share: float = Field(default=0.33, gt=0, le=1)
    """A node takes part from this share of its part of them."""
    idle_percent: float = Field(default=30.0, gt=0, le=100)
    """A GPU used less than this is idle."""
    join: Duration = timedelta(seconds=90)
    """Stretches nearer than this are one event; three scrapes of 30 s."""
    gpus_per_node: int = Field(default=8, ge=1)
    """Where no metric tells how many a node has."""
    link_bits_per_second: float = Field(default=200e9, gt=0)
    """Of a port."""
    link_ports: int = Field(default=1, ge=1)
    """Of a node, towards the storage."""
    storage_write_bytes_per_second: float = Field(default=250e9, gt=0)
    """The most the storage takes."""
    storage_read_bytes_per_second: float = Field(default=700e9, gt=0)
    """The most it gives."""
    slot_table: int = Field(default=128, ge=1)
    """Requests in flight of one connection of the NFS client."""
    full_share: float = Field(default=0.8, gt=0, le=1)
    """Of a limit: from here on it is what binds."""
    queue_share: float = Field(default=0.5, gt=0, le=1)
    """Of an operation's time spent before it is sent."""
    slow_ratio: float = Field(default=3.0, gt=1)
    """A response this many times the quiet one: the server is slow."""
    cpu_share: float = Field(default=0.9, gt=0, le=1)
    """Of a node's CPU time: it has none left."""
    straggler_share: float = Field(default=0.25, gt=0, le=1)
    """Of an event's length: a node this much later is late."""
    straggler_nodes: float = Field(default=0.2, gt=0, le=1)
    """More late nodes than this share are no stragglers."""
    knee_ratio: float = Field(default=0.8, gt=0, le=1)
    """Of the throughput a node has in the smallest events."""
    before_failure: Duration = timedelta(hours=24)
    """Saves within this before a failure are compared with the rest."""


class FeatureSettings(Settings):
    """Everything a row of the matrix depends on."""

    window: WindowSettings = WindowSettings()
    panel: PanelSettings = PanelSettings()
    signals: SignalSettings = SignalSettings()
    templates: TemplateSettings = TemplateSettings()
    peers: PeerSettings = PeerSettings()
    exclude: tuple[str, ...] = ()
    r"""Columns that models are not to see, as regular expressions found anywhere in their names: ^phase\. or
    \.peer__."""

    @field_validator("exclude")
    @classmethod
    def _are_expressions(cls, texts: tuple[str, ...]) -> tuple[str, ...]:
        for text in texts:
            try:
                re.compile(text)
            except re.error as error:
                raise ValueError(f"{text!r} is no regular expression: {error}") from error
        return texts
