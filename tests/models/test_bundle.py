"""A bundle comes back as it was, or not at all."""

import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pytest

from features.tables import ModelError
from models import bundle

FACTS = {"columns": ["a__mean", "b__mean"], "champion": "blend", "threshold": 0.25}


def trees() -> str:
    """A small model's text."""
    X = np.arange(80.0).reshape(40, 2)
    data = lightgbm.Dataset(X, label=(X[:, 0] > 40).astype(float))
    settings = {"objective": "binary", "verbose": -1, "num_threads": 1, "min_data_in_leaf": 3}
    return str(lightgbm.train(settings, data, num_boost_round=3).model_to_string())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle without trees, which need no child process to read."""
    folder = tmp_path_factory.mktemp("made") / "bundle"
    state = {"centre": np.array([1.5, np.nan]), "columns": ["a__mean"], "parts": {"pca": {"k": 2, "m": np.eye(2)}}}
    bundle.write(folder, FACTS, {"blend": state}, {"templates.json": b'{"templates": []}'})
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "bundle"))


def rewrite(folder: Path, change: dict[str, Any]) -> None:
    """A manifest whose own digest is right."""
    manifest = json.loads((folder / "manifest.json").read_bytes()) | change
    text = json.dumps(manifest).encode()
    (folder / "manifest.json").write_bytes(text)
    (folder / "manifest.sha256").write_text(bundle.digest_of(text) + "\n")


def test_what_was_written_is_read_to_the_bit(folder: Path) -> None:
    found = bundle.read(folder)
    state = found.states["blend"]
    np.testing.assert_array_equal(state["centre"], [1.5, np.nan])
    np.testing.assert_array_equal(state["parts"]["pca"]["m"], np.eye(2))
    assert (state["columns"], state["parts"]["pca"]["k"]) == (["a__mean"], 2)
    assert found.files == {"templates.json": b'{"templates": []}'}
    assert (found.columns, found.facts["threshold"]) == (["a__mean", "b__mean"], 0.25)


def test_the_same_content_has_the_same_digest(tmp_path: Path) -> None:
    state = {"x": np.arange(3), "y": 0.1}
    first = bundle.write(tmp_path / "one", FACTS, {"m": state}, {})
    assert first == bundle.write(tmp_path / "two", FACTS, {"m": state}, {})
    assert bundle.read(tmp_path / "one", first).digest == first


def test_writing_again_replaces_the_whole_bundle(tmp_path: Path) -> None:
    bundle.write(tmp_path / "b", FACTS, {"old": {"x": 1}}, {})
    bundle.write(tmp_path / "b", FACTS, {"new": {"x": 1}}, {})
    assert set(bundle.read(tmp_path / "b").states) == {"new"}
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


def test_an_array_of_objects_is_refused_when_written(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="pickle"):
        bundle.write(tmp_path / "b", FACTS, {"m": {"x": np.array([object()])}}, {})
    assert list(tmp_path.iterdir()) == []


def test_another_bundle_than_the_registered_one_is_refused(folder: Path) -> None:
    with pytest.raises(ModelError, match="not the registered bundle"):
        bundle.read(folder, "0" * 64)


def test_every_file_cut_anywhere_is_refused(folder: Path) -> None:
    rng = random.Random(0)  # noqa: S311  # where to cut, no secret
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        whole = path.read_bytes()
        for length in {0, 1, len(whole) - 1, *(rng.randrange(len(whole)) for _ in range(20))}:
            path.write_bytes(whole[:length])
            with pytest.raises(ModelError):
                bundle.read(folder)
        path.write_bytes(whole)
    bundle.read(folder)


def test_every_flipped_byte_is_refused(folder: Path) -> None:
    rng = random.Random(0)  # noqa: S311  # where to flip, no secret
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    for _ in range(600):
        path = rng.choice(files)
        whole = path.read_bytes()
        at = rng.randrange(len(whole))
        path.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << rng.randrange(8))]) + whole[at + 1 :])
        with pytest.raises(ModelError):
            bundle.read(folder)
        path.write_bytes(whole)
    bundle.read(folder)


@pytest.mark.parametrize("name", ["manifest.json", "manifest.sha256", "templates.json", "models/blend.npz"])
def test_a_missing_file_is_refused(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(ModelError, match=name):
        bundle.read(folder)


@pytest.mark.parametrize("name", ["extra.json", "models/evil.npz", ".hidden"])
def test_a_file_too_many_is_refused(folder: Path, name: str) -> None:
    (folder / name).write_text("x")
    with pytest.raises(ModelError, match="does not belong"):
        bundle.read(folder)


def test_a_link_in_place_of_a_file_is_not_followed(folder: Path, tmp_path: Path) -> None:
    shutil.move(folder / "templates.json", tmp_path / "elsewhere")
    (folder / "templates.json").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ModelError, match="can't be read"):
        bundle.read(folder)


def test_a_pipe_in_place_of_a_file_does_not_hang(folder: Path) -> None:
    (folder / "templates.json").unlink()
    os.mkfifo(folder / "templates.json")
    with pytest.raises(ModelError, match="no plain file"):
        bundle.read(folder)


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "models/../../x", "a//b", "..", "a\x00b", "a\\..\\b"])
def test_a_path_that_leaves_the_folder_is_refused(folder: Path, name: str) -> None:
    files = json.loads((folder / "manifest.json").read_bytes())["files"]
    rewrite(folder, {"files": files | {name: {"sha256": "0" * 64, "bytes": 1}}})
    with pytest.raises(ModelError, match="no file of a bundle"):
        bundle.read(folder)


@pytest.mark.parametrize("change", [{"format": 1}, {"format": None}, {"files": []}, {"columns": ["b__mean"]}])
def test_a_manifest_of_another_kind_is_refused(folder: Path, change: dict[str, Any]) -> None:
    rewrite(folder, change)
    with pytest.raises(ModelError, match="train again"):
        bundle.read(folder)


def test_a_pickle_in_an_array_file_is_never_opened(folder: Path) -> None:
    path = folder / "models" / "blend.npz"
    with path.open("wb") as handle:
        np.savez(handle, a0=np.array([print], dtype=object), a1=np.eye(2))
    files = json.loads((folder / "manifest.json").read_bytes())["files"]
    data = path.read_bytes()
    files["models/blend.npz"] = {"sha256": bundle.digest_of(data), "bytes": len(data)}
    rewrite(folder, {"files": files})
    with pytest.raises(ModelError, match="ValueError"):
        bundle.read(folder)


def test_a_folder_that_is_none_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="foreshock train"):
        bundle.read(tmp_path / "absent")


def test_trees_come_back_as_their_text(tmp_path: Path) -> None:
    text = trees()
    bundle.write(tmp_path / "b", FACTS, {"lightgbm": {"booster": text}}, {})
    assert bundle.read(tmp_path / "b").states["lightgbm"]["booster"] == text


def test_trees_that_would_end_the_process_end_a_child(tmp_path: Path) -> None:
    text = trees()
    at = text.index("Tree=1")
    damaged = text[: at + 60] + "\nend of trees\n"
    bundle.write(tmp_path / "b", FACTS, {"lightgbm": {"one": text, "two": damaged}}, {})  # digests are right
    with pytest.raises(ModelError, match=r"LightGBM can't load models/lightgbm\.1\.txt"):
        bundle.read(tmp_path / "b")


def test_trees_cut_short_are_refused(tmp_path: Path) -> None:
    text = trees()
    bundle.write(tmp_path / "b", FACTS, {"lightgbm": {"booster": text[: text.index("end of trees")]}}, {})
    with pytest.raises(ModelError, match="cut short"):
        bundle.read(tmp_path / "b")
