"""The frozen thing that travels from training to scoring: a folder of text, JSON and plain arrays.

``manifest.json`` says what was learned from what, and the sha256 and size of every other file;
``manifest.sha256`` is the manifest's own. Everything is checked before anything is parsed, and the bytes that were
checked are the bytes that are used. No pickle: arrays are ``.npz`` read with ``allow_pickle=False``, LightGBM models
are its text form, tried first in a child process because a damaged one ends the process that loads it.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from features.tables import ModelError

FORMAT = 6  # raised when an older foreshock could misread a bundle
MANIFEST = "manifest.json"
CHECKSUM = "manifest.sha256"
_LIBRARIES = ("lightgbm", "numpy", "pandas", "scikit-learn", "tsfresh", "drain3")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*(/[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*)?")
_LARGEST = 2 << 30  # bytes of one file: far above any model, far below what fills a small machine's memory
_TREES = "tree\n"  # how LightGBM's text begins
# The child limits itself (4 GiB, 60 s of CPU), loads each text, and scores one empty row. LightGBM does without the
# libraries that are hidden from it here; to load them would cost two seconds.
_CHILD = """
import json, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
sys.modules.update(dict.fromkeys(("sklearn", "pandas", "pyarrow", "matplotlib", "graphviz", "dask")))
import numpy, lightgbm
for name, text in json.load(sys.stdin).items():
    print(name, flush=True)
    booster = lightgbm.Booster(model_str=text)
    booster.predict(numpy.full((1, booster.num_feature()), numpy.nan), num_threads=1)
"""

State = Mapping[str, Any]  # what a scorer's to_state() gives: arrays, text, JSON, and dicts of these


@dataclass(frozen=True)
class Bundle:
    """A bundle whose every byte was checked.

    Attributes
    ----------
    facts
        The manifest as written by training, without the list of files.
    states
        Model name to the state its scorer was frozen to.
    files
        Any other file by name, as the templates.
    digest
        sha256 of the manifest, in hex: it identifies the bundle.
    """

    facts: dict[str, Any]
    states: dict[str, dict[str, Any]]
    files: dict[str, bytes]
    digest: str

    @property
    def columns(self) -> list[str]:
        """The matrix's columns, in the order the models were fitted on."""
        return list(self.facts["columns"])


def digest_of(data: bytes) -> str:
    """sha256 in hex."""
    return hashlib.sha256(data).hexdigest()


def columns_digest(columns: list[str]) -> str:
    """Digest of a list of columns; their order counts."""
    return digest_of("\n".join(columns).encode())


def write(folder: Path, facts: Mapping[str, Any], states: Mapping[str, State], files: Mapping[str, bytes]) -> str:
    """Write a bundle; the folder appears whole or not at all.

    Parameters
    ----------
    folder
        Where; an older bundle there is replaced.
    facts
        What scoring and people need to know; must hold ``columns``, a list of str.

    Returns
    -------
    str
        The bundle's digest.
    """
    content = dict(files)
    for name, state in states.items():
        content.update(_freeze(name, state))
    for name in content:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} can't be a file in a bundle")
    manifest = {
        **facts,
        "format": FORMAT,
        "foreshock": version("foreshock"),
        "python": ".".join(map(str, sys.version_info[:3])),
        "libraries": {name: version(name) for name in _LIBRARIES},
        "columns_sha256": columns_digest(list(facts["columns"])),
        "models_in": sorted(states),
        "files": {name: {"sha256": digest_of(data), "bytes": len(data)} for name, data in sorted(content.items())},
    }
    text = json.dumps(manifest, indent=1, sort_keys=True, allow_nan=False).encode()
    content[MANIFEST] = text
    content[CHECKSUM] = digest_of(text).encode() + b"\n"
    _replace(folder, content)
    return digest_of(text)


def _freeze(name: str, state: State) -> dict[str, bytes]:
    """A model's files: its arrays in one .npz, its trees in .txt, the rest in .json that points to them."""
    arrays: dict[str, NDArray[Any]] = {}
    files: dict[str, bytes] = {}

    def walk(value: Any, path: str) -> Any:
        if isinstance(value, np.ndarray):
            if value.dtype.hasobject:
                raise TypeError(f"{name}: {path} is an array of objects; only pickle could keep it")
            arrays[path] = value
            return {"$array": path}
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, str) and value.startswith(_TREES):
            file = f"models/{name}.{len(files)}.txt"
            files[file] = value.encode()
            return {"$text": file}
        if isinstance(value, Mapping):
            return {str(key): walk(item, f"{path}/{key}" if path else str(key)) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [walk(item, f"{path}/{index}") for index, item in enumerate(value)]
        return value

    said = walk(state, "")
    packed = io.BytesIO()
    # Keys are positions: a column's name may hold what a zip entry can't.
    np.savez(packed, **{f"a{index}": array for index, array in enumerate(arrays.values())})  # type: ignore[arg-type]  # the stub takes any key for its own option
    document = {"state": said, "arrays": list(arrays)}
    files[f"models/{name}.json"] = json.dumps(document, sort_keys=True).encode()
    files[f"models/{name}.npz"] = packed.getvalue()
    return files


def _replace(folder: Path, content: Mapping[str, bytes]) -> None:
    """Put a folder of files in place of what is there."""
    folder = folder.absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = folder.with_name(f".{folder.name}.{os.getpid()}.new")
    gone = folder.with_name(f".{folder.name}.{os.getpid()}.old")
    for leftover in (made, gone):
        shutil.rmtree(leftover, ignore_errors=True)
    try:
        for name, data in content.items():
            path = made / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as handle:
                handle.write(data)
                handle.flush()
                os.fsync(handle.fileno())
        if folder.exists():
            folder.rename(gone)
        made.rename(folder)
    finally:
        shutil.rmtree(made, ignore_errors=True)
        shutil.rmtree(gone, ignore_errors=True)


@dataclass(frozen=True)
class Sealed:
    """A bundle whose every byte was checked and of which nothing was opened but the manifest.

    Attributes
    ----------
    facts, digest
        As of a `Bundle`.
    """

    folder: Path
    facts: dict[str, Any]
    digest: str
    _content: dict[str, bytes]

    def open(self) -> Bundle:
        """The models' states; LightGBM's trees are tried in a child process first.

        Raises
        ------
        ModelError
            They are of another format.
        """
        try:
            documents = {
                name: json.loads(self._content[f"models/{name}.json"]) for name in list(self.facts["models_in"])
            }
            _survive(self.folder, {name: self._content[name] for name in _texts(list(documents.values()))})
            states = {name: _thaw(name, said, self._content) for name, said in documents.items()}
        except (KeyError, TypeError, ValueError, OSError, EOFError, RecursionError, zipfile.BadZipFile) as error:
            raise _unreadable(self.folder, error) from error
        others = {name: data for name, data in self._content.items() if not name.startswith("models/")}
        return Bundle(self.facts, states, others, self.digest)


def read(folder: Path, expect_digest: str | None = None) -> Bundle:
    """Check a bundle whole, then open it.

    Parameters
    ----------
    expect_digest
        What the registry says the manifest's sha256 is.

    Raises
    ------
    ModelError
        A file is missing, damaged, added, or made by another format; nothing of it was opened.
    """
    return seal(folder, expect_digest).open()


def seal(folder: Path, expect_digest: str | None = None) -> Sealed:
    """Check a bundle whole, and open nothing of it but its manifest; parameters and errors are those of `read`."""
    manifest, digest = _checked_manifest(folder, expect_digest)
    content = _checked_files(folder, manifest["files"])
    try:
        if columns_digest(list(manifest["columns"])) != manifest["columns_sha256"]:
            raise ModelError(f"{folder}: the list of columns does not match its digest; train again")
    except (KeyError, TypeError) as error:
        raise _unreadable(folder, error) from error
    return Sealed(folder, {key: value for key, value in manifest.items() if key != "files"}, digest, content)


def _unreadable(folder: Path, error: Exception) -> ModelError:
    return ModelError(f"{folder}: not a bundle foreshock can read ({type(error).__name__}); train again")


def _checked_manifest(folder: Path, expect_digest: str | None) -> tuple[dict[str, Any], str]:
    if not folder.is_dir():
        raise ModelError(f"{folder} is no folder of a bundle; 'foreshock train' makes one")
    text = _bytes(folder, MANIFEST, 64 << 20)
    digest = digest_of(text)
    if _bytes(folder, CHECKSUM, 1024).decode("ascii", "replace") != digest + "\n":
        raise ModelError(f"{folder}: {MANIFEST} is damaged; copy the bundle again or train again")
    if expect_digest is not None and digest != expect_digest:
        raise ModelError(
            f"{folder}: this is not the registered bundle: wanted sha256 {expect_digest[:12]}…, found {digest[:12]}…"
        )
    try:
        manifest = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{folder}: {MANIFEST} is no JSON; train again") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        found = manifest.get("format") if isinstance(manifest, dict) else None
        raise ModelError(f"{folder}: bundle format {found!r}, this foreshock reads {FORMAT}; train again")
    if not isinstance(manifest.get("files"), dict):
        raise ModelError(f"{folder}: {MANIFEST} lists no files; train again")
    return manifest, digest


def _checked_files(folder: Path, listed: dict[str, Any]) -> dict[str, bytes]:
    """Every listed file's bytes, once names, presence, sizes and digests agree."""
    for name in listed:
        if not _NAME.fullmatch(name):
            raise ModelError(f"{folder}: the manifest names {name[:80]!r}, which is no file of a bundle")
    there = {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir() or path.is_symlink()}
    extra, missing = there - {*listed, MANIFEST, CHECKSUM}, set(listed) - there
    if extra or missing:
        what = f"{min(missing)} is missing" if missing else f"{min(extra)} does not belong to it"
        raise ModelError(f"{folder}: {what}; copy the bundle again or train again")
    content = {}
    for name, about in listed.items():
        size = about.get("bytes") if isinstance(about, dict) else None
        if not isinstance(size, int) or not 0 <= size <= _LARGEST:
            raise ModelError(f"{folder}: the manifest gives no sound size for {name}")
        content[name] = _bytes(folder, name, size)
        if len(content[name]) != size or digest_of(content[name]) != about.get("sha256"):
            raise ModelError(f"{folder}: {name} is damaged; copy the bundle again or train again")
    return content


def _bytes(folder: Path, name: str, limit: int) -> bytes:
    """A plain file's bytes, at most ``limit`` and one more; no link is followed."""
    path = folder / name
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as handle:
            if not stat.S_ISREG(os.fstat(handle.fileno()).st_mode):
                raise ModelError(f"{folder}: {name} is no plain file")
            return handle.read(limit + 1)
    except OSError as error:
        raise ModelError(f"{folder}: {name} can't be read: {error.strerror}; is this a bundle?") from error


def _texts(said: Any) -> list[str]:
    """Files of trees that a document names."""
    if isinstance(said, dict):
        return [said["$text"]] if said.keys() == {"$text"} else _texts(list(said.values()))
    return [name for item in said for name in _texts(item)] if isinstance(said, list) else []


def _thaw(name: str, document: dict[str, Any], content: Mapping[str, bytes]) -> dict[str, Any]:
    """A model's state from its checked bytes; a child process has loaded its trees and lived."""
    stream = io.BytesIO(content[f"models/{name}.npz"])
    with np.load(stream, allow_pickle=False) as packed:
        arrays = {path: packed[f"a{index}"] for index, path in enumerate(document["arrays"])}

    def walk(value: Any) -> Any:
        if isinstance(value, dict):
            if value.keys() == {"$array"}:
                return arrays[value["$array"]]
            if value.keys() == {"$text"}:
                return content[value["$text"]].decode()
            return {key: walk(item) for key, item in value.items()}
        return [walk(item) for item in value] if isinstance(value, list) else value

    state = walk(document["state"])
    if not isinstance(state, dict):
        raise TypeError("a state is a mapping")
    return state


def _survive(folder: Path, texts: Mapping[str, bytes]) -> None:
    """Let a child process load LightGBM's texts; ModelError when it does not live."""
    if not texts:
        return
    for name, text in texts.items():
        if b"\nend of trees\n" not in text:  # what LightGBM itself takes for a smaller model
            raise ModelError(f"{folder}: {name} is cut short; train again")
    command = [sys.executable, "-c", _CHILD]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}  # each thread's stack would count against the limit
    asked = json.dumps({name: text.decode() for name, text in texts.items()}).encode()
    try:
        child = subprocess.run(command, input=asked, capture_output=True, timeout=120, check=False, env=environment)  # noqa: S603  # our own interpreter and code
    except subprocess.TimeoutExpired as error:
        raise ModelError(f"{folder}: LightGBM's trees take more than two minutes to load; train again") from error
    if child.returncode != 0:
        said = child.stderr.decode("utf-8", "replace").strip().splitlines()
        tried = [line for line in child.stdout.decode("utf-8", "replace").splitlines() if line in texts]
        name = tried[-1] if tried else "its own library"
        raise ModelError(f"{folder}: LightGBM can't load {name} ({said[-1][:200] if said else child.returncode})")
