"""What several tests need."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# The suite draws the same data each time, so that a change and nothing else breaks it; a longer run (FORESHOCK_FUZZ)
# draws new ones. A loaded machine is no failure.
settings.register_profile("suite", derandomize="FORESHOCK_FUZZ" not in os.environ, deadline=None, database=None)
settings.load_profile("suite")

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data, or a skip where it is absent."""
    folder = Path(os.environ.get("FORESHOCK_REAL_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip("no real data here; FORESHOCK_REAL_DATA names their folder")
    return folder


@pytest.fixture(autouse=True)
def _levels_of_loggers() -> Iterator[None]:
    """A command sets how much foreshock's loggers say; the next test finds them as this one did."""
    loggers = [logging.getLogger(name) for name in (None, "features", "models", "pipelines")]
    levels = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)
