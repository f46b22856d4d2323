"""The cache's file: what is kept, what leaves, and what happens when the file fails."""

import os
import sqlite3
import subprocess
import sys
from itertools import count

import pytest

from sie_mcp import metrics
from sie_mcp.gateway.vectors.store import VectorStore

VALUE = b"v" * 1_000


@pytest.fixture
def clock():
    ticks = count(1.0)
    return lambda: next(ticks)


@pytest.fixture
def store(tmp_path, clock):
    made = VectorStore(tmp_path / "x" / "vectors.sqlite", 100_000, clock)
    yield made
    made.close()


def key(number: int) -> bytes:
    return number.to_bytes(32, "big")


def failures(kind: str) -> float:
    return metrics.CACHE_FAILURES.labels(kind)._value.get()


def test_what_was_put_is_found_also_by_another_that_opens_the_file(store, tmp_path, clock):
    store.put({key(1): b"one", key(2): b"two"})
    assert store.get([key(1), key(2), key(3)]) == {key(1): b"one", key(2): b"two"}
    other = VectorStore(tmp_path / "x" / "vectors.sqlite", 100_000, clock)
    assert other.get([key(2)]) == {key(2): b"two"}
    other.close()
    assert (tmp_path / "x" / "vectors.sqlite").stat().st_mode & 0o077 == 0


def test_what_was_unused_for_longest_leaves_and_the_bytes_stay_within_the_limit(store, tmp_path):
    for number in range(500):
        store.put({key(number): VALUE})
        assert store.get([key(0)]), "used each time, it stays"
    assert store.get([key(499)])
    assert not store.get([key(1)])
    assert 10_000 < metrics.CACHE_BYTES._value.get() <= 100_000
    store.close()
    assert (tmp_path / "x" / "vectors.sqlite").stat().st_size < 200_000


def test_a_value_over_the_limit_is_not_kept_and_costs_the_others_nothing(store):
    store.put({key(1): b"one"})
    store.put({key(2): b"x" * 200_000})
    assert store.get([key(1), key(2)]) == {key(1): b"one"}


@pytest.mark.parametrize("harm", ["header", "value", "swapped", "empty"])
def test_a_damaged_file_gives_nothing_wrong_and_begins_anew(store, tmp_path, harm):
    store.put({key(1): b"one" * 500, key(2): b"two" * 500})
    store.close()
    path = tmp_path / "x" / "vectors.sqlite"
    if harm == "header":
        path.write_bytes(b"no database at all" + path.read_bytes()[18:])
    elif harm == "value":
        path.write_bytes(path.read_bytes().replace(b"oneone", b"onEone", 1))
    elif harm == "empty":
        path.write_bytes(b"")
    else:
        with sqlite3.connect(path) as database:
            database.execute("UPDATE entries SET value = (SELECT value FROM entries LIMIT 1)")
        database.close()
    found = store.get([key(1), key(2)])
    assert found in ({}, {key(1): b"one" * 500}, {key(2): b"two" * 500})
    store.put({key(3): b"three"})
    assert store.get([key(3)]) == {key(3): b"three"}


def test_a_full_disk_costs_hits_and_no_answer(store):
    store.put({key(1): b"one"})
    before = failures("unavailable")
    pages = store._opened().execute("PRAGMA page_count").fetchone()[0]
    store._opened().execute(f"PRAGMA max_page_count = {pages}")
    store.put({key(number): VALUE for number in range(10, 50)})
    assert failures("unavailable") == before + 1
    assert store.get([key(1), key(10)]) == {key(1): b"one"}
    store.put({key(2): b"two"})
    assert store.get([key(2)]) == {key(2): b"two"}


def test_a_folder_that_cannot_be_written_costs_hits_and_no_answer(tmp_path, clock):
    (tmp_path / "file").touch()
    store = VectorStore(tmp_path / "file" / "vectors.sqlite", 100_000, clock)
    before = failures("unavailable")
    store.put({key(1): b"one"})
    assert store.get([key(1)]) == {}
    assert failures("unavailable") == before + 2


def test_a_file_that_another_holds_is_done_without(store, tmp_path):
    store.put({key(1): b"one"})
    other = sqlite3.connect(tmp_path / "x" / "vectors.sqlite")
    other.execute("BEGIN IMMEDIATE")
    store.put({key(2): b"two"})
    assert store.get([key(1), key(2)]) == {key(1): b"one"}
    other.rollback()
    other.close()
    store.put({key(2): b"two"})
    assert store.get([key(2)]) == {key(2): b"two"}


PROGRAM = """
import sys
from pathlib import Path
from sie_mcp.gateway.vectors.store import VectorStore
store = VectorStore(Path(sys.argv[1]), 200_000)
for number in range(200):
    name = f"{sys.argv[2]} {number}".encode()
    store.put({name.ljust(32): name * 20})
"""


def test_two_processes_share_a_file(tmp_path):
    path = tmp_path / "vectors.sqlite"
    programs = [
        subprocess.Popen([sys.executable, "-c", PROGRAM, str(path), name], env=os.environ)
        for name in ("a", "b")
    ]
    assert [one.wait(timeout=60) for one in programs] == [0, 0]
    store = VectorStore(path, 200_000)
    names = [f"{name} {number}".encode() for name in "ab" for number in range(200)]
    found = store.get([one.ljust(32) for one in names])
    assert {one.split()[0] for one in found} == {b"a", b"b"}
    assert all(value == name.rstrip() * 20 for name, value in found.items())
    store.close()
