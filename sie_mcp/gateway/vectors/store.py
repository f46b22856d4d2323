"""Values by keys in one SQLite file of bounded size; what was unused for longest leaves first.

Bytes only: knows no vectors. A file that is damaged, locked or full costs hits, never an answer.
Several processes may share the file.
"""

import hashlib
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from sie_mcp import metrics

logger = logging.getLogger(__name__)

ResultT = TypeVar("ResultT")

_CHECK_BYTES = 16
# Beside its value an entry has a key twice, a check, a time and its part of the pages.
_ENTRY_BYTES = 192
# How long another process may hold the file before this one does without.
_BUSY_S = 0.2
# Looking for what is new takes no writing; this many uses are noted together.
_MAX_NOTED = 512
_SCHEMA = """
CREATE TABLE IF NOT EXISTS entries (
    key BLOB PRIMARY KEY, value BLOB NOT NULL, size INTEGER NOT NULL, used REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS by_use ON entries (used);
CREATE TABLE IF NOT EXISTS total (bytes INTEGER NOT NULL);
INSERT INTO total SELECT 0 WHERE NOT EXISTS (SELECT * FROM total);
CREATE TRIGGER IF NOT EXISTS added AFTER INSERT ON entries
    BEGIN UPDATE total SET bytes = bytes + NEW.size; END;
CREATE TRIGGER IF NOT EXISTS left AFTER DELETE ON entries
    BEGIN UPDATE total SET bytes = bytes - OLD.size; END;
"""
# So many leave at once.
_LEAVING = 64
_LEAVES = "DELETE FROM entries WHERE key IN (SELECT key FROM entries ORDER BY used LIMIT ?)"


class VectorStore:
    """The file. Blocks: call on a thread, from any.

    Args:
        path: Of the file; made where it is missing, made anew where it is damaged.
        max_bytes: Of all entries, and of the file.
        clock: Seconds, the same for all processes.
    """

    def __init__(self, path: Path, max_bytes: int, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._clock = clock
        self._lock = threading.Lock()
        self._database: sqlite3.Connection | None = None
        self._noted: dict[bytes, float] = {}
        self._is_told = False

    def get(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return what there is for keys."""
        return self._guarded(lambda database: self._get(database, keys)) or {}

    def put(self, values: Mapping[bytes, bytes]) -> None:
        """Keep values; those that are too large for the file are not."""
        rows = [
            (key, _checked(key, value), len(value) + _ENTRY_BYTES)
            for key, value in values.items()
            if len(value) + _ENTRY_BYTES <= self._max_bytes
        ]
        if rows:
            self._guarded(lambda database: self._put(database, rows))

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._close()

    def _get(self, database: sqlite3.Connection, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        for key in keys:
            row = database.execute("SELECT value FROM entries WHERE key = ?", (key,)).fetchone()
            if row is None:
                continue
            value = bytes(row[0][_CHECK_BYTES:])
            if _checked(key, value) != row[0]:
                raise sqlite3.DatabaseError("an entry is not what was written")
            found[key] = value
        now_s = self._clock()
        self._noted |= dict.fromkeys(found, now_s)
        if len(self._noted) >= _MAX_NOTED:
            with database:
                self._note_uses(database)
        return found

    def _put(self, database: sqlite3.Connection, rows: list[tuple[bytes, bytes, int]]) -> None:
        now_s = self._clock()
        with database:
            self._note_uses(database)
            database.executemany(
                "INSERT OR IGNORE INTO entries (key, value, size, used) VALUES (?, ?, ?, ?)",
                [(*row, now_s) for row in rows],
            )
            num_bytes = _sum(database)
            while num_bytes > self._max_bytes:
                database.execute(_LEAVES, (_LEAVING,))
                num_bytes = _sum(database)
        metrics.CACHE_BYTES.set(num_bytes)

    def _note_uses(self, database: sqlite3.Connection) -> None:
        uses = [(used_s, key) for key, used_s in self._noted.items()]
        self._noted.clear()
        database.executemany("UPDATE entries SET used = ? WHERE key = ?", uses)

    def _guarded(self, work: Callable[[sqlite3.Connection], ResultT]) -> ResultT | None:
        """Work on the file; None where it cannot be had. A damaged one is thrown away."""
        with self._lock:
            try:
                result = work(self._opened())
            except (sqlite3.OperationalError, OSError) as error:
                # Full, locked or not to be written: what is there may still be good.
                self._tell("unavailable", error)
                self._close()
                return None
            except sqlite3.DatabaseError as error:
                self._tell("damaged", error)
                self._remove()
                return None
            self._is_told = False
            return result

    def _tell(self, kind: str, error: Exception) -> None:
        """Count a failure; only the first of a row is logged."""
        metrics.CACHE_FAILURES.labels(kind).inc()
        if not self._is_told:
            logger.warning("the cache of vectors is %s: %s", kind, error)
        self._is_told = True

    def _opened(self) -> sqlite3.Connection:
        if self._database is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # Texts can be guessed from vectors.
            self._path.touch(mode=0o600)
            database = sqlite3.connect(self._path, timeout=_BUSY_S, check_same_thread=False)
            self._database = database
            database.execute("PRAGMA journal_mode = WAL")
            # A crash may cost the last entries; each one has a check of its own.
            database.execute("PRAGMA synchronous = OFF")
            database.execute(f"PRAGMA journal_size_limit = {self._max_bytes // 4}")
            # Looked at first: to write it takes the file from whoever writes now.
            if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'left'").fetchone():
                database.executescript(_SCHEMA)
        return self._database

    def _close(self) -> None:
        database, self._database = self._database, None
        if database is not None:
            database.close()

    def _remove(self) -> None:
        self._close()
        self._noted.clear()
        for suffix in ("", "-wal", "-shm"):
            with suppress(OSError):
                Path(f"{self._path}{suffix}").unlink()


def _checked(key: bytes, value: bytes) -> bytes:
    """Return a value behind what shows that it belongs to the key and is whole."""
    return hashlib.blake2b(key + value, digest_size=_CHECK_BYTES).digest() + value


def _sum(database: sqlite3.Connection) -> int:
    found: int = database.execute("SELECT bytes FROM total").fetchone()[0]
    return found
