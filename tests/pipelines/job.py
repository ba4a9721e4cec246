"""The batch job with its models and samples put in by hand, so that thousands of runs can be disturbed."""

import http.server
import json
import os
import shutil
import signal
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import httpx
import numpy as np

from features.tables import GPUS, to_ns, to_time
from models.lineup import Lineup
from pipelines import judging
from pipelines import score as scoring
from pipelines.config import Config
from pipelines.frozen import Frozen, Usual
from pipelines.score import Outlets, Source
from pipelines.sources import watch_key
from pipelines.watch import Watch

STRIDE = 300_000_000_000
FIRST = 1_767_225_600_000_000_000
# A node that is calm, over the threshold for two windows, and calm again until its alert is over
STORY = (0.1, 1.5, 1.4, 0.1, 0.1, 0.1, 0.1)
SOURCE = Source(prometheus="http://prometheus.test")


def end(number: int) -> int:
    return FIRST + number * STRIDE


def rows(score: float, nodes: int = 8) -> list[dict[str, Any]]:
    def one(node: str, value: float) -> dict[str, Any]:
        reason = {"feature": "f", "value": 1.0, "peers": 0.0, "usual": 0.0, "effect": 1.0, "text": "f is 1"}
        return {
            "node": node, "score": value, "probability": value / 2, "threshold": 0.5, "alarm": value > 1,
            "suspect_gpu": "GPU-7", "status": "ok", "missing_ratio": 0.0, "reasons": [reason] if value > 1 else [],
        }  # fmt: skip

    return [one("n0", score), *(one(f"n{number}", 0.2) for number in range(1, nodes))]


def frozen() -> Frozen:
    """A bundle's surroundings without any model: the job's `judge` is put in by hand."""
    config, nothing = Config(), np.empty(0, dtype=np.float32)
    return Frozen(
        lineup=Lineup((), config.models),
        usual=Usual((), nothing, nothing, (), nothing),
        templates=None,
        gpus=GPUS.empty(),
        features=config.features,
        labels=config.labels,
        ingest=config.ingest,
        champion="robust-z",
        threshold=0.5,
        nodes=(),
        heard=(),
        metrics=("up",),
        step_ns=30_000_000_000,
        quantiles=(0.0, 0.5, 1.0),
        digest="d" * 64,
    )


class Receiver:
    """An Alertmanager and a Pushgateway in one: what they hold now, by identity, and which alerts are not over."""

    def __init__(self) -> None:
        self.alerts: dict[str, dict[str, Any]] = {}
        self.pushed = b""
        self.status = 200
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if len(body) < int(self.headers["Content-Length"]):
                    return  # its sender was killed
                if receiver.status < 300:
                    receiver.take(self.path, body)
                self.send_response(receiver.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_PUT = do_POST  # noqa: N815  # the base class's naming

            def log_message(self, *_: object) -> None: ...

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def take(self, path: str, body: bytes) -> None:
        if "alerts" not in path:
            self.pushed = body
            return
        for alert in json.loads(body):
            self.alerts[json.dumps(alert["labels"], sort_keys=True)] = alert

    def firing(self, now_ns: int) -> list[str]:
        """Nodes whose alert would page at that moment; one whose end has passed is resolved, as Alertmanager has it."""
        return [alert["labels"].get("node", "") for alert in self.alerts.values() if to_ns(alert["endsAt"]) > now_ns]

    @contextmanager
    def running(self) -> Iterator["Receiver"]:
        thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.server.shutdown()
            self.server.server_close()
            thread.join()


class Job:
    """One output folder and its outlets."""

    def __init__(self, frozen: Frozen, out: Path, receiver: Receiver) -> None:
        self.frozen, self.out, self.receiver = frozen, out, receiver

    @contextmanager
    def put_in(self, story: Sequence[float]) -> Iterator[None]:
        def take(_source: Source, _frozen: Frozen, _config: Config, ends: Sequence[int], *_: object) -> Any:
            watch = Watch(watch_key(SOURCE, self.frozen), 30_000_000_000, FIRST, max(ends), GPUS.empty())
            return SimpleNamespace(watch=watch, rejected=Counter(), panels={})

        def judge(*arguments: Any) -> dict[int, list[dict[str, Any]]]:
            ends, begin = arguments[3], arguments[4]
            return {at: rows(story[(at - FIRST) // STRIDE % len(story)]) for at in ends if at >= begin}

        with ExitStack() as stack:
            sealed = SimpleNamespace(facts={}, digest=self.frozen.digest, open=lambda: None)
            stack.enter_context(mock.patch.object(judging, "take", take))
            stack.enter_context(mock.patch.object(judging, "judge", judge))
            stack.enter_context(mock.patch.object(scoring, "seal", return_value=(sealed, "bundle:x")))
            stack.enter_context(mock.patch.object(scoring, "terms", return_value=self.frozen.terms))
            stack.enter_context(mock.patch.object(scoring, "thaw", return_value=self.frozen))
            stack.enter_context(mock.patch.object(scoring, "asked", return_value=nullcontext()))
            stack.enter_context(mock.patch("time.sleep"))
            yield

    def run(self, number: int, story: Sequence[float] = STORY, at: int | None = -1, late: int = 20) -> dict[str, Any]:
        """The run of a window, seconds after its end; with ``at`` None the job finds its windows by the clock."""
        to = self.receiver.url
        outlets = Outlets(self.out / "textfile" / "f.prom", to, to, send=True)
        asked = None if at is None else to_time(end(number))
        with self.put_in(story), mock.patch.object(scoring, "now_ns", return_value=end(number) + late * 10**9):
            return scoring.score(SOURCE, Config(), out=self.out, at=asked, outlets=outlets)

    def left(self) -> dict[str, Any]:
        """Everything a run leaves behind, but for what tells its own times."""
        files = {}
        for path in sorted(self.out.rglob("*")):
            if path.is_file() and not path.name.startswith((".", "state.db")):
                lines = path.read_bytes().splitlines()
                kept = [line for line in lines if b"_last_success" not in line and b"_duration" not in line]
                files[str(path.relative_to(self.out))] = kept
        with sqlite3.connect(self.out / "state.db") as database:
            tables = {name: sorted(database.execute(f"select * from {name}").fetchall()) for name in TABLES}  # noqa: S608  # names of ours
        database.close()
        return {"files": files, "tables": tables, "alerts": self.receiver.alerts}


TABLES = ("scores", "windows", "alerts", "receipts", "silences", "memory", "facts")


class Points:
    """The places where a run touches the world; each is passed before and after."""

    def __init__(self, act: Callable[[int, str], None]) -> None:
        self.act, self.names = act, list[str]()

    def passed(self, name: str) -> None:
        self.names.append(name)
        self.act(len(self.names), name)

    def around(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **named: Any) -> Any:
            self.passed(f"before {name}")
            found = function(*arguments, **named)
            self.passed(f"after {name}")
            return found

        return wrapped

    @contextmanager
    def installed(self) -> Iterator[None]:
        points = self

        class Connection(sqlite3.Connection):
            def execute(self, sql: str, *more: Any) -> sqlite3.Cursor:
                name = " ".join(sql.split()[:3])
                return points.around(name, super().execute)(sql, *more)  # type: ignore[no-any-return]  # a wrapped call

            def executemany(self, sql: str, *more: Any) -> sqlite3.Cursor:
                return points.around(" ".join(sql.split()[:5]), super().executemany)(sql, *more)  # type: ignore[no-any-return]  # a wrapped call

        real = sqlite3.connect

        def connect(*arguments: Any, **named: Any) -> sqlite3.Connection:
            return real(*arguments, factory=Connection, **named)

        with ExitStack() as stack:
            replace, mkdir = Path.replace, Path.mkdir
            stack.enter_context(mock.patch("pipelines.state.sqlite3.connect", connect))
            stack.enter_context(mock.patch.object(os, "fsync", self.around("fsync", os.fsync)))
            stack.enter_context(mock.patch.object(Path, "replace", self.around("rename", replace)))
            stack.enter_context(mock.patch.object(Path, "mkdir", self.around("mkdir", mkdir)))
            stack.enter_context(mock.patch.object(httpx, "request", self.around("request", httpx.request)))
            self.wrap(stack)
            yield

    def wrap(self, stack: ExitStack) -> None:
        """More places, of jobs that have them."""


def in_child(work: Callable[[], None]) -> int:
    """Do something in a fork of this process; its exit status, negative when a signal ended it."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:  # noqa: BLE001  # nothing of pytest may run in the child
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def copy(job: Job, to: Path) -> Job:
    """The job's folder and what its receiver holds, again."""
    shutil.copytree(job.out, to) if job.out.exists() else to.mkdir(parents=True)
    return Job(job.frozen, to, job.receiver)
