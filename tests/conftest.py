"""What several tests need."""

import os
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
