"""Real servers for tests, on free ports of the loopback address."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest


@contextmanager
def server(program: str, folder: Path, *arguments: str) -> Iterator[str]:
    """A real server on a free port of the loopback address."""
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"{program} is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    command = [path, f"--web.listen-address=127.0.0.1:{port}", *arguments]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
        try:
            for _ in range(200):
                try:
                    if httpx.get(f"{url}/-/ready", timeout=1).is_success:
                        break
                except httpx.HTTPError:
                    time.sleep(0.05)
            else:
                pytest.fail(f"{program} did not start: {(folder / 'log').read_text()}")
            yield url
        finally:
            process.terminate()
            process.wait(10)
