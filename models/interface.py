"""MLflow's UI, served on the loopback address."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from urllib.parse import urlsplit

from features.tables import UpstreamError, UsageError
from models.tracking import ENVIRONMENT, Tracker, shown


def serve_ui(uri: str, port: int) -> None:
    """Serve MLflow's UI on the loopback address until interrupted.

    Raises
    ------
    UsageError
        The address is a server's already: open it in a browser.
    UpstreamError
        The UI ended by itself, as when the port is taken.
    """
    if urlsplit(uri).scheme in ("http", "https"):
        raise UsageError(f"{shown(uri)} is a server; open it in a browser")
    Tracker(uri)  # makes the tables under the lock
    command = [
        sys.executable,
        "-m",
        "mlflow",
        "ui",
        "--backend-store-uri",
        uri,
        "--host",
        "127.0.0.1",
        "--workers",
        "1",
    ]
    # one person looks: one worker, and none of the background jobs of chats and agents
    environment = {**os.environ, **ENVIRONMENT, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    code = _until_told([*command, "--port", str(port)], environment)
    if code > 0:
        raise UpstreamError(f"MLflow's UI ended with {code}; is port {port} taken?")


def _until_told(command: list[str], environment: dict[str, str]) -> int:
    """Run a server until it ends, or this process is told to end, as by a service manager: then the server ends first.

    A server that is left behind would hold the port.
    """
    running: list[subprocess.Popen[bytes]] = []
    told: list[int] = []

    def end(number: int, _: object) -> None:
        told.append(number)
        for server in running:
            server.terminate()

    before = signal.signal(signal.SIGTERM, end)
    try:
        running.append(subprocess.Popen(command, env=environment))  # noqa: S603  # our own interpreter, no shell
        if told:
            running[0].terminate()
        return running[0].wait()
    except KeyboardInterrupt:
        return 0
    finally:
        for server in running:
            server.terminate()
            server.wait()
        signal.signal(signal.SIGTERM, before)
