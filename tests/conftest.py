"""What several tests need."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data, or a skip where it is absent."""
    folder = Path(os.environ.get("FORESHOCK_REAL_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip("no real data here; FORESHOCK_REAL_DATA names their folder")
    return folder
