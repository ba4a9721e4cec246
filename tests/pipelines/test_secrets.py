"""A secret reaches the server it is for, and nothing else: no output, log, file, MLflow run or traceback."""

import base64
import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines import config as configuration
from tests.pipelines.tiny import World

CANARY = "canary-0123456789"
BASIC = base64.b64encode(f"me:{CANARY}".encode()).decode()


class Ear:
    """A server of every kind: it keeps what it was asked with, and answers with what it is told to."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.answer = 200, b""
        ear = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                ear.heard.append(f"{self.path} {self.headers.get('Authorization', '')} {self.headers.get('X-Key', '')}")
                status, body = ear.answer
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_PUT = do_POST  # noqa: N815  # the base class's naming

            def log_message(self, *_: object) -> None: ...

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self.server.server_port}"


@pytest.fixture
def ear() -> Iterator[Ear]:
    made = Ear()
    thread = threading.Thread(target=made.server.serve_forever)
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


def run(folder: Path, *arguments: object) -> str:
    """Everything that a command says and leaves."""
    environment = {**os.environ, "FORESHOCK_TRACEBACK": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "pipelines.cli", *map(str, arguments)]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment)
    files = [path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "token"]
    return ran.stdout + ran.stderr + b"".join(files).decode("latin1")


EMPTY = b'{"status":"success","data":{"resultType":"matrix","result":[]}}'


@pytest.mark.parametrize("answer", [(200, EMPTY), (401, b'{"status":"error","error":"no"}')])
def test_what_prometheus_and_loki_are_told_no_one_else_hears(
    world: World, ear: Ear, tmp_path: Path, answer: tuple[int, bytes]
) -> None:
    ear.answer = answer
    (tmp_path / "token").write_text(CANARY)
    header = ["--header", f"X-Key=@{tmp_path / 'token'}"]
    address = f"http://me:{CANARY}@{ear.host}"
    said = run(
        tmp_path, "score", "--prometheus", address, "--loki", address, *header, "--bundle", world.bundle, "--out", "o",
        "--alertmanager", address, "--pushgateway", address, "--send", "--log-format", "json",
    )  # fmt: skip
    assert ear.heard[0].endswith(f"Basic {BASIC} {CANARY}")
    assert CANARY not in said
    assert BASIC not in said


@pytest.mark.parametrize("scheme", ["http", "postgresql"])
def test_a_registry_s_password_is_in_no_complaint(tmp_path: Path, ear: Ear, scheme: str) -> None:
    ear.answer = 500, b"no"
    uri = f"{scheme}://me:{CANARY}@{ear.host}/x"
    said = run(tmp_path, "score", "--prometheus", "http://127.0.0.1:9", "--tracking-uri", uri, "--out", "out")
    assert "foreshock: error: " in said
    assert CANARY not in said


def test_an_outlet_s_password_is_in_no_output(world: World, ear: Ear, tmp_path: Path) -> None:
    ear.answer = 200, b""
    address = f"http://me:{CANARY}@{ear.host}"
    said = run(
        tmp_path, "score", world.store, "--bundle", world.bundle, "--out", "out", "--json", "--textfile", "f.prom",
        "--alertmanager", address, "--pushgateway", address, "--send",
    )  # fmt: skip
    assert any(BASIC in line for line in ear.heard)
    assert json.loads(said[: said.index("}\n") + 1])["scores"]
    assert CANARY not in said
    assert BASIC not in said


def test_ingest_keeps_no_password_of_a_server(ear: Ear, tmp_path: Path) -> None:
    ear.answer = 200, EMPTY
    span = ("--start", "2026-01-01T00:00:00Z", "--end", "2026-01-01T00:10:00Z")
    said = run(tmp_path, "ingest", "store", "--prometheus", f"http://me:{CANARY}@{ear.host}", *span, "--json")
    assert f"***@{ear.host}" in said  # what was read is told and kept, without the password
    assert CANARY not in said


def test_settings_are_shown_without_a_password(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f'[tracking]\nuri = "postgresql://me:{CANARY}@host/db"\n')
    loaded = configuration.load(tmp_path / "token")
    assert CANARY in loaded.tracking.uri
    assert CANARY not in run(tmp_path, "config", "show", "--config", "token")


def test_a_password_with_an_at_sign_is_hidden_whole(world: World, tmp_path: Path) -> None:
    address = f"http://me:a@{CANARY}@127.0.0.1:9"
    said = run(tmp_path, "score", "--prometheus", address, "--bundle", world.bundle, "--out", "out")
    assert "foreshock: error: " in said
    assert CANARY not in said
