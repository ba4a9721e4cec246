"""What the scoring job remembers from run to run, in one SQLite file under a lock.

A window's scores and what they do to the alerts are one transaction; what was sent is noted after it was sent.
So a run killed anywhere is healed by the next: at worst it sends again what Alertmanager takes for the same.
"""

from __future__ import annotations

import contextlib
import difflib
import fcntl
import json
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import pandas as pd

from features.tables import BusyError, ForeshockError, InputError, to_ns, to_time
from pipelines.paging import Alert

_FORMAT = 1  # PRAGMA user_version
_KEPT_NS = 30 * 86_400_000_000_000  # scores older than this leave the database; their JSON lines stay
_DAY_NS = 86_400_000_000_000
_TABLES = """
create table if not exists scores (
    window_end integer, node text, model text, score real, probability real, alarm integer, status text, row text,
    primary key (window_end, node, model)
) without rowid;
create table if not exists windows (window_end integer, model text, primary key (window_end, model)) without rowid;
create table if not exists alerts (node text primary key, alert text, state text) without rowid;
create table if not exists receipts (alert text, said text, primary key (alert, said)) without rowid;
create table if not exists facts (
    window_end integer, model text, said text, primary key (window_end, model)
) without rowid;
create table if not exists memory (id integer primary key check (id = 1), content blob);
create table if not exists silences (node text primary key, until integer, why text) without rowid;
"""


@contextlib.contextmanager
def locked(out: Path) -> Iterator[None]:
    """Hold the folder for one run.

    Raises
    ------
    BusyError
        Another run holds it.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        handle = (out / ".lock").open("a")
    except OSError as error:
        raise ForeshockError(f"{out} can't be written: {error.strerror}") from error
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BusyError(f"another run is scoring into {out}; this one does nothing") from error
        yield


class State:
    """The database of one output folder."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._db, self.path = connection, path

    @classmethod
    @contextlib.contextmanager
    def open(cls, out: Path) -> Iterator[Self]:
        """Open ``OUT/state.db``, made when new.

        Raises
        ------
        InputError
            The file is no database, or a newer foreshock's.
        ForeshockError
            The disk is full or refuses.
        """
        path = out / "state.db"
        connection = None
        try:
            out.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(path, timeout=30, isolation_level=None)
            connection.execute("pragma journal_mode = wal")
            connection.execute("pragma synchronous = full")
            (found,) = connection.execute("pragma user_version").fetchone()
            if found > _FORMAT:
                raise InputError(f"{path} was written by a newer foreshock; use that one or another --out")
            connection.executescript(f"{_TABLES}pragma user_version = {_FORMAT};")
            yield cls(connection, path)
        except (sqlite3.OperationalError, OSError) as error:
            raise ForeshockError(f"{path} can't be used: {error}") from error
        except sqlite3.DatabaseError as error:
            raise InputError(f"{path} is damaged: {error}; move it away, the scores are kept beside it") from error
        finally:
            if connection is not None:
                connection.close()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("begin immediate")
        try:
            yield
        except BaseException:
            self._db.execute("rollback")
            raise
        self._db.execute("commit")

    def last(self, model: str | None = None) -> int | None:
        """End of the newest window scored [ns], of one model or of any."""
        query = "select max(window_end) from windows where ? is null or model = ?"
        (found,) = self._db.execute(query, (model, model)).fetchone()
        return None if found is None else int(found)

    def rows(self, end_ns: int, model: str) -> list[dict[str, Any]] | None:
        """A window's rows as committed; None when it was not scored."""
        if not self._db.execute("select 1 from windows where (window_end, model) = (?, ?)", (end_ns, model)).fetchone():
            return None
        query = "select row from scores where (window_end, model) = (?, ?) order by node"
        return [json.loads(text) for (text,) in self._db.execute(query, (end_ns, model))]

    def alerts(self) -> dict[str, Alert]:
        """The latest alert of each node."""
        return {node: _alert(text) for node, text in self._db.execute("select node, state from alerts order by node")}

    def commit(
        self,
        end_ns: int,
        model: str,
        rows: Sequence[Mapping[str, Any]],
        alerts: Mapping[str, Alert] | None,
        memory: bytes | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        """Keep a window's rows, the alerts after it (None: a window of the past moves none), and what was seen."""
        with self._transaction():
            self._db.executemany(
                "insert or replace into scores values (?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (end_ns, r["node"], model, r["score"], r["probability"], r["alarm"], r["status"], json.dumps(r))
                    for r in rows
                ],
            )
            self._db.execute("insert or replace into windows values (?, ?)", (end_ns, model))
            if alerts is not None:
                told = [(node, one.alert, json.dumps(asdict(one))) for node, one in alerts.items()]
                self._db.executemany("insert or replace into alerts values (?, ?, ?)", told)
            said = json.dumps(facts or {}, sort_keys=True)
            self._db.execute("insert or replace into facts values (?, ?, ?)", (end_ns, model, said))
            if memory is not None:
                self._db.execute("insert or replace into memory values (1, ?)", (memory,))
            for table in ("scores", "windows", "facts"):
                self._db.execute(f"delete from {table} where window_end < ?", (end_ns - _KEPT_NS,))  # noqa: S608  # a name of ours

    def facts(self, end_ns: int, model: str) -> dict[str, Any]:
        """What was noted of a window as a whole."""
        query = "select said from facts where (window_end, model) = (?, ?)"
        found = self._db.execute(query, (end_ns, model)).fetchone()
        return {} if found is None else dict(json.loads(found[0]))

    def memory(self) -> bytes | None:
        """What earlier runs had seen, as `pipelines.watch` writes it."""
        found = self._db.execute("select content from memory").fetchone()
        return None if found is None else bytes(found[0])

    def forget_after(self, moment_ns: int) -> int:
        """Drop windows that end later, and what was seen by then; how many.

        A clock that ran ahead left them: no real window would page until it has passed them. Alerts stay, so that
        nothing is paged twice.
        """
        with self._transaction():
            query = "select count(distinct window_end) from windows where window_end > ?"
            (count,) = self._db.execute(query, (moment_ns,)).fetchone()
            if count:
                for table in ("scores", "windows", "facts"):
                    self._db.execute(f"delete from {table} where window_end > ?", (moment_ns,))  # noqa: S608  # as above
                self._db.execute("delete from memory")
        return int(count)

    def nodes(self) -> set[str]:
        """Nodes that were scored."""
        return {node for (node,) in self._db.execute("select distinct node from scores")}

    def unsent(self) -> list[Alert]:
        """What a run has to send: every open alert (again), and closed ones that were sent while open."""
        said = {tuple(row) for row in self._db.execute("select alert, said from receipts")}
        return [
            one
            for one in self.alerts().values()
            if not one.silenced
            and (not one.end or ((one.alert, "firing") in said and (one.alert, f"resolved {one.end}") not in said))
        ]

    def sent(self, alerts: Sequence[Alert]) -> None:
        """Note what was delivered."""
        with self._transaction():
            said = [(one.alert, f"resolved {one.end}" if one.end else "firing") for one in alerts]
            self._db.executemany("insert or ignore into receipts values (?, ?)", said)
            self._db.execute("delete from receipts where alert not in (select alert from alerts)")

    def silence(self, node: str, until_ns: int, why: str) -> None:
        """Let a node page no one until then."""
        with self._transaction():
            self._db.execute("insert or replace into silences values (?, ?, ?)", (node, until_ns, why))

    def silenced(self, end_ns: int) -> set[str]:
        """Nodes that page no one for this window."""
        return {node for (node,) in self._db.execute("select node from silences where until > ?", (end_ns,))}


def _alert(text: str) -> Alert:
    said = json.loads(text)
    return Alert(**{**said, "reasons": tuple(said["reasons"])})


def acknowledge(out: Path, node: str, until: pd.Timestamp | None, why: str) -> pd.Timestamp:
    """Silence a node's pages until a time, by default a day from now; its scores go on.

    Raises
    ------
    InputError
        The folder holds no scoring job's state, or the job never scored such a node.
    """
    if not (out / "state.db").is_file():
        raise InputError(f"{out} holds no scoring state; give --out as 'foreshock score' was given it")
    end_ns = time.time_ns() + _DAY_NS if until is None else to_ns(until)
    with State.open(out) as state:
        known = state.nodes()
        if node not in known:
            near = difflib.get_close_matches(node, known, n=3) or sorted(known)[:3]
            raise InputError(
                f"{out} never scored a node {node}; it knows {len(known)}: {', '.join(near) or 'none'} ..."
            )
        state.silence(node, end_ns, why)
    return to_time(end_ns)
