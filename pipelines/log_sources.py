"""Log lines of a span, for a job that comes back every few minutes: of files, it reads only the end it needs."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from features.tables import LOGS, InputError, conform, to_time
from features.windows import as_ns
from pipelines.config import Config
from pipelines.readers import loki_api
from pipelines.readers.context import LogContext
from pipelines.readers.logs import read_logs, recognise_log
from pipelines.readers.prometheus_api import Server
from pipelines.readers.recognise import check_file
from pipelines.readers.tally import Tally

_SMALL = 4 << 20  # a file of fewer bytes is read whole
_PROBE = 64 << 10  # bytes read to learn what time it is at a place in a file
_SLACK_NS = 600_000_000_000  # lines of several writers reach a file in almost their order
_PACKED = (b"\x1f\x8b", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"BZh")
_WHOLE = frozenset({"loki-api", "elastic-search"})  # one document: it has no lines to begin at
_JOURNALCTL_SECONDS = 120


def read(
    paths: Sequence[Path],
    loki: str | None,
    config: Config,
    start_ns: int,
    end_ns: int,
    tally: Tally,
    headers: Mapping[str, str],
) -> pd.DataFrame:
    """Frame of `LOGS` in ``[start, end)``, by node and time.

    Parameters
    ----------
    paths
        Files; folders of them, as a rotated set; folders of a systemd journal.
    loki
        A Loki server's address.

    Raises
    ------
    InputError
        A path is not there, or a file is of no known format.
    UpstreamError
        Loki can't be reached or refuses.
    """
    said = config.ingest
    context = LogContext(timezone=said.timezone, strip_domain=said.strip_domain, aliases=said.aliases)
    low, high = to_time(start_ns), to_time(end_ns)
    found = _frames(paths, context, start_ns, end_ns, tally)
    parts = [frame[(frame["time"] >= low) & (frame["time"] < high)] for frame in found]
    if loki is not None:
        parts += loki_api.fetch(Server(loki, headers), start_ns, end_ns, tally, context=context)
    held = [part for part in parts if len(part)]
    if not held:
        return LOGS.empty()
    whole = pd.concat(held, ignore_index=True).drop_duplicates(list(LOGS.key))
    return conform(whole.sort_values(["node", "time"], kind="stable"), LOGS)


def _frames(
    paths: Sequence[Path], context: LogContext, start_ns: int, end_ns: int, tally: Tally
) -> Iterator[pd.DataFrame]:
    for path in paths:
        if not path.exists():
            raise InputError(f"{path} does not exist")
        if path.is_dir() and next(path.rglob("*.journal"), None) is not None:
            yield from _journal(path, context, start_ns, end_ns, tally)
            continue
        if not path.is_dir():
            check_file(path)
        files = sorted(item for item in path.rglob("*") if item.is_file()) if path.is_dir() else [path]
        for file in files:
            stat = file.stat()
            if stat.st_mtime_ns >= start_ns and stat.st_size:  # else rotated away before the span began
                yield from _file(file, context, start_ns, tally)


def _file(path: Path, context: LogContext, start_ns: int, tally: Tally) -> Iterator[pd.DataFrame]:
    context = replace(context, reference_time=to_time(path.stat().st_mtime_ns))
    at = offset(path, context, start_ns)
    if not at:
        yield from read_logs(path, context, tally)
        return
    with tempfile.TemporaryDirectory(prefix="foreshock-") as folder:
        tail = Path(folder) / path.name  # CRI lines take their container from the file's name
        with path.open("rb") as source, tail.open("wb") as target:
            source.seek(at)
            shutil.copyfileobj(source, target, 1 << 20)
        yield from read_logs(tail, context, tally)


def offset(path: Path, context: LogContext, start_ns: int) -> int:
    """Where in a file the lines of a time begin, some minutes early to be sure; 0 for what can't be searched."""
    size = path.stat().st_size
    if size < _SMALL:
        return 0
    with path.open("rb") as file:
        head = file.read(_PROBE)
    if head.startswith(_PACKED) or recognise_log(head) in (None, *_WHOLE):
        return 0
    low, high = 0, size  # the lines at low are older than the time, those at high are not
    while high - low > 2 * _PROBE:
        middle = (low + high) // 2
        time = _time_at(path, middle, context)
        if time is not None and time < start_ns - _SLACK_NS:
            low = middle
        else:
            high = middle
    return _line_after(path, low) if low else 0


def _line_after(path: Path, place: int) -> int:
    """The first byte of the next line."""
    with path.open("rb") as file:
        file.seek(place)
        file.readline()
        return file.tell()


def _time_at(path: Path, place: int, context: LogContext) -> int | None:
    """The latest time of the lines near a place [ns]; None where none tells one."""
    begin = _line_after(path, place)
    with path.open("rb") as file, tempfile.TemporaryDirectory(prefix="foreshock-") as folder:
        file.seek(begin)
        block = file.read(_PROBE)
        piece = Path(folder) / path.name
        piece.write_bytes(block[: block.rfind(b"\n") + 1])
        try:
            times = [int(as_ns(frame["time"]).max()) for frame in read_logs(piece, context, Tally()) if len(frame)]
        except InputError:
            return None
    return max(times) if times else None


def _journal(folder: Path, context: LogContext, start_ns: int, end_ns: int, tally: Tally) -> Iterator[pd.DataFrame]:
    """Entries of a systemd journal, by its own program."""
    program = shutil.which("journalctl")
    if program is None:
        raise InputError(f"{folder} is a systemd journal; install journalctl, or export it by 'journalctl -o json'")
    command = [program, "-D", str(folder), "-o", "json", "--no-pager", "--quiet", "--all"]
    command += [f"--since=@{start_ns // 10**9}", f"--until=@{-(-end_ns // 10**9)}"]
    with tempfile.TemporaryDirectory(prefix="foreshock-") as scratch:
        exported = Path(scratch) / "journal.json"
        with exported.open("wb") as target:
            try:
                ran = subprocess.run(  # noqa: S603  # a program found by its name, no shell
                    command, stdout=target, stderr=subprocess.PIPE, timeout=_JOURNALCTL_SECONDS, check=False
                )
            except subprocess.TimeoutExpired as error:
                raise InputError(f"{folder}: journalctl gave no answer in {_JOURNALCTL_SECONDS} s") from error
        if ran.returncode:
            said = ran.stderr.decode("utf-8", "replace").strip().splitlines()
            raise InputError(f"{folder}: journalctl can't read it: {said[-1][:200] if said else ran.returncode}")
        if exported.stat().st_size:
            yield from read_logs(exported, replace(context, reference_time=to_time(end_ns)), tally)
