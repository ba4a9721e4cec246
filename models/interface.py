"""MLflow's UI, served on the loopback address."""

from __future__ import annotations

import contextlib
import os
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
    with contextlib.suppress(KeyboardInterrupt):
        code = subprocess.run([*command, "--port", str(port)], env=environment, check=False).returncode  # noqa: S603  # our own interpreter, no shell
        if code > 0:
            raise UpstreamError(f"MLflow's UI ended with {code}; is port {port} taken?")
