"""The watchdog: what it takes for stuck, and how it ends the process."""

import asyncio
import threading
from dataclasses import dataclass, field

import pytest

from sie_mcp.engine import watchdog
from sie_mcp.engine.watchdog import EXIT_FAILED, FAILURE_GRACE_S, Watchdog
from sie_mcp.errors import WorkerLost, WorkerUnavailable
from tests.engine.conftest import play, running, until
from tests.engine.test_faults import encode
from tests.toys import ToyLoader


@dataclass
class Device:
    beat_s: float = 0.0
    failure: str | None = None

    def fail(self, reason: str) -> None:
        self.failure = self.failure or reason


@dataclass
class Rig:
    """A watchdog on a clock of its own, whose loop answers when it is told to."""

    now_s: float = 0.0
    device: Device = field(default_factory=Device)
    ends: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.dog = Watchdog(
            [self.device],
            max_forward_s=100.0,
            max_loop_silence_s=50.0,
            end=self.ends.append,
            clock=lambda: self.now_s,
        )

    def pass_time(self, seconds: int, *, device_beats: bool = True, loop_beats: bool = True):
        for _ in range(seconds):
            self.now_s += 1
            if device_beats:
                self.device.beat_s = self.now_s
            if loop_beats:
                self.dog._hear_loop()
            self.dog.look()


class Deaf:
    """An event loop that runs nothing."""

    def is_closed(self) -> bool:
        return False

    def call_soon_threadsafe(self, callback: object) -> None:
        """Forget it."""


@pytest.fixture
def rig() -> Rig:
    made = Rig()
    made.dog._loop = Deaf()  # type: ignore[assignment]
    return made


def test_a_worker_whose_hearts_beat_lives(rig):
    rig.pass_time(10_000)
    assert rig.device.failure is None
    assert rig.ends == []


def test_a_forward_pass_over_its_time_fails_the_device_and_ends_the_process(rig):
    rig.pass_time(100, device_beats=False)
    assert rig.device.failure is None
    rig.pass_time(1, device_beats=False)
    assert rig.device.failure == "a forward pass has run for 101 s (max_forward_s)"
    assert rig.ends == []
    rig.pass_time(int(FAILURE_GRACE_S), device_beats=False)
    assert rig.ends == [EXIT_FAILED]


def test_an_event_loop_that_stands_still_ends_the_process(rig):
    rig.pass_time(51, loop_beats=False)
    assert rig.device.failure == "the event loop has stood still for 51 s"
    rig.pass_time(int(FAILURE_GRACE_S), loop_beats=False)
    assert rig.ends == [EXIT_FAILED]


def test_a_device_that_failed_by_itself_ends_the_process(rig):
    rig.device.fail("lost")
    rig.pass_time(int(FAILURE_GRACE_S))
    assert rig.ends == []
    rig.pass_time(1)
    assert rig.ends == [EXIT_FAILED]


def test_a_process_that_was_paused_is_not_stuck(rig):
    rig.pass_time(5)
    rig.now_s += 3_600
    rig.dog.look()
    rig.pass_time(40, device_beats=False, loop_beats=False)
    assert rig.device.failure is None


def test_a_process_that_leaves_has_a_bounded_time_for_it(rig):
    rig.dog.end_within(30, 0)
    rig.dog.end_within(60, 1)
    rig.pass_time(29)
    assert rig.ends == []
    rig.pass_time(1)
    assert rig.ends == [0]


def test_a_stuck_forward_pass_answers_its_callers_and_ends_the_process(tmp_path, monkeypatch):
    """With real threads: what ran is lost, what waited was not touched."""
    monkeypatch.setattr(watchdog, "LOOK_EVERY_S", 0.01)
    monkeypatch.setattr(watchdog, "FAILURE_GRACE_S", 0.0)
    ended = threading.Event()

    async def scenario():
        loader = ToyLoader(forward_gate=threading.Event())
        async with running(tmp_path, loader, max_batch_sequences=1) as rig:
            stuck = asyncio.create_task(rig.engine.run("a", encode("x")))
            await until(lambda: loader.num_held == 1)
            waiting = asyncio.create_task(rig.engine.run("a", encode("y")))
            await until(lambda: rig.device.queue_tokens == 4)
            # Only now: a thread that waits for a processor for so long is no forward pass.
            dog = Watchdog([rig.device], max_forward_s=0.3, end=lambda status: ended.set())
            dog.start()
            with pytest.raises(WorkerLost):
                await stuck
            with pytest.raises(WorkerUnavailable) as caught:
                await waiting
            assert type(caught.value) is WorkerUnavailable
            assert rig.device.queue_tokens == 0
            await until(ended.is_set)
            dog.stop()

    play(scenario)


def test_a_real_loop_is_heard_and_its_end_is_no_failure(monkeypatch):
    monkeypatch.setattr(watchdog, "LOOK_EVERY_S", 0.005)
    device = Device(beat_s=float("inf"))
    dogs = []

    async def scenario():
        dog = Watchdog([device], max_forward_s=100.0)
        dogs.append(dog)
        dog.start()
        first_s = dog._loop_beat_s
        await until(lambda: dog._loop_beat_s > first_s)

    play(scenario)
    beat_s = dogs[0]._loop_beat_s

    async def later():
        await until(lambda: dogs[0]._loop_beat_s > beat_s)

    play(later)
    dogs[0].stop()
    assert device.failure is None
