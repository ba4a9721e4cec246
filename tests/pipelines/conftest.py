"""What several tests of this floor share."""

import pytest

from tests.pipelines.tiny import World


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A store of a small cluster and a bundle fitted on it."""
    return World(tmp_path_factory.mktemp("world"))
