"""Small requests that come together and ask for the same, run as one: what each costs is shared.

Knows the contract of encode and the event loop; knows neither HTTP nor the engine. A request alone
runs as it came.
"""

import asyncio
from collections.abc import Callable, Coroutine, Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

from sie_mcp import wire
from sie_mcp.errors import InvalidInput, QueueFull, RateLimited, SieError

# Of one request that may join others: a few short texts, of which none is waited for long.
MAX_ITEMS, MAX_CHARS = 4, 2_000
# What a group is refused for and each may be told apart.
APART = (InvalidInput, QueueFull, RateLimited)
# Of those that run as one, so that the last is not kept waiting by the reading of the first.
MAX_JOINED_ITEMS, MAX_JOINED_CHARS = 128, 32_768
# That wait to be sent, in all.
MAX_WAITING = 8_192
# That they wait, whatever is under way: deadlines and limits are looked after where they run.
MAX_WAIT_S = 0.5
RETRY_AFTER_S = 1.0

KeyT = TypeVar("KeyT", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Share:
    """What one run stands for.

    Attributes:
        number: So many requests.
        is_first_try: Where it is refused for one of them, or for want of room, others follow.
        is_one: It is one of them: it stands for all where there is no room for it either.
    """

    number: int = 1
    is_first_try: bool = False
    is_one: bool = False


ALONE = Share()
# What is asked alike, the requests as one, and what they stand for -> the answer to all.
Run = Callable[[KeyT, wire.EncodeRequest, Share], Coroutine[Any, Any, wire.EncodeResponse]]


def may_join(request: wire.Request) -> bool:
    """Whether a request is a few short texts to encode, and nothing else."""
    if not isinstance(request, wire.EncodeRequest) or len(request.items) > MAX_ITEMS:
        return False
    return all(one.images is None and one.input_ids is None for one in request.items) and (
        _num_chars(request) <= MAX_CHARS
    )


def asked_alike(request: wire.EncodeRequest) -> str:
    """Return what a request says beside its items."""
    return request.params.model_dump_json() if "params" in request.model_fields_set else ""


@dataclass(eq=False, slots=True)
class _Group:
    """Requests that run as one, and who waits for each."""

    requests: list[wire.EncodeRequest] = field(default_factory=list)
    waiters: list[asyncio.Future[wire.EncodeResponse]] = field(default_factory=list)
    num_items: int = 0
    num_chars: int = 0
    timer: asyncio.TimerHandle | None = None
    task: asyncio.Task[None] | None = None

    def has_room(self, num_items: int, num_chars: int) -> bool:
        return (
            self.num_items + num_items <= MAX_JOINED_ITEMS
            and self.num_chars + num_chars <= MAX_JOINED_CHARS
        )

    def one_done(self, waiter: "asyncio.Future[wire.EncodeResponse]") -> None:
        """Hear of an answer, or of one that nobody wants: when nobody wants any, work ends."""
        is_over = waiter.cancelled() and all(one.done() for one in self.waiters)
        if is_over and self.task is not None:
            self.task.cancel()

    def leave_out_given_up(self) -> bool:
        """Keep what is still wanted; whether there is any."""
        pairs = zip(self.requests, self.waiters, strict=True)
        kept = [(request, waiter) for request, waiter in pairs if not waiter.done()]
        self.requests = [request for request, _ in kept]
        self.waiters = [waiter for _, waiter in kept]
        return bool(kept)


@dataclass(eq=False, slots=True)
class _Line:
    """Groups of one key that wait to be sent, and how many are under way."""

    groups: list[_Group] = field(default_factory=list)
    num_running: int = 0
    is_due: bool = False


class Joiner(Generic[KeyT]):
    """Joins what comes in one turn of the event loop, or while enough is under way.

    Args:
        run: Answers requests as one.
        max_running: Of one key; what comes then waits and joins.
    """

    def __init__(self, run: Run[KeyT], *, max_running: int) -> None:
        self._run = run
        self._max_running = max_running
        self._lines: dict[KeyT, _Line] = {}
        self._num_waiting = 0

    def ask(self, key: KeyT, request: wire.EncodeRequest) -> "asyncio.Future[wire.EncodeResponse]":
        """Return what becomes the answer; cancel it to want it no more.

        Args:
            key: What is asked alike: requests of one key may be answered as one.
            request: One that `may_join`.

        Raises:
            QueueFull: too much waits already.
        """
        if self._num_waiting >= MAX_WAITING:
            raise QueueFull(
                f"{MAX_WAITING:,} requests wait to be sent on; call again",
                retry_after_s=RETRY_AFTER_S,
            )
        loop = asyncio.get_running_loop()
        line = self._lines.setdefault(key, _Line())
        group = _group_for(line, request)
        if group.timer is None:
            group.timer = loop.call_later(MAX_WAIT_S, self._start, key, line, group)
        waiter: asyncio.Future[wire.EncodeResponse] = loop.create_future()
        group.requests.append(request)
        group.waiters.append(waiter)
        self._num_waiting += 1
        waiter.add_done_callback(group.one_done)
        if not line.is_due and line.num_running < self._max_running:
            line.is_due = True
            loop.call_soon(self._send, key, line)
        return waiter

    def _send(self, key: KeyT, line: _Line) -> None:
        """Start what waits, as much as may be under way."""
        line.is_due = False
        while line.groups and line.num_running < self._max_running:
            self._start(key, line, line.groups[0])
        if not line.groups and not line.num_running:
            self._lines.pop(key, None)

    def _start(self, key: KeyT, line: _Line, group: _Group) -> None:
        """Start one of those that wait."""
        assert group.timer is not None
        group.timer.cancel()
        line.groups.remove(group)
        self._num_waiting -= len(group.waiters)
        if group.leave_out_given_up():
            line.num_running += 1
            group.task = asyncio.ensure_future(self._answer(key, group))
            group.task.add_done_callback(partial(self._ended, key, line, group))

    def _ended(self, key: KeyT, line: _Line, group: _Group, task: "asyncio.Task[None]") -> None:
        """Tell whoever waits what stands against all, and start what is next."""
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        for waiter in group.waiters:
            if error is not None:
                _fail(waiter, error)
        line.num_running -= 1
        self._send(key, line)

    async def _answer(self, key: KeyT, group: _Group) -> None:
        """Answer all; each for itself where one of them is wrong, or where not all have room."""
        try:
            answers = await self._answers(key, group.requests)
        except APART as error:
            if len(group.requests) == 1:
                raise
            await self._each(key, group, is_full=not isinstance(error, InvalidInput))
            return
        for waiter, answer in zip(group.waiters, answers, strict=True):
            _succeed(waiter, answer)

    async def _each(self, key: KeyT, group: _Group, *, is_full: bool) -> None:
        """Answer one by one; where it `is_full`, none are tried for which there is no room.

        Raises:
            QueueFull, RateLimited: not for one of them.
        """
        group.leave_out_given_up()
        pairs = list(zip(group.requests, group.waiters, strict=True))
        if is_full and pairs:
            request, waiter = pairs.pop()
            share = Share(len(group.requests), is_one=True)
            try:
                _succeed(waiter, await self._run(key, request, share))
            except InvalidInput as error:
                _fail(waiter, error)
        await asyncio.gather(*(self._alone(key, request, waiter) for request, waiter in pairs))

    async def _alone(
        self,
        key: KeyT,
        request: wire.EncodeRequest,
        waiter: "asyncio.Future[wire.EncodeResponse]",
    ) -> None:
        """Answer one, for as long as it is wanted."""
        work = asyncio.ensure_future(self._run(key, request, ALONE))
        waiter.add_done_callback(lambda _: work.cancel())
        try:
            _succeed(waiter, await work)
        except SieError as error:
            _fail(waiter, error)
        except asyncio.CancelledError:
            if not waiter.cancelled():
                raise

    async def _answers(
        self, key: KeyT, requests: Sequence[wire.EncodeRequest]
    ) -> list[wire.EncodeResponse]:
        if len(requests) == 1:
            return [await self._run(key, requests[0], ALONE)]
        # Each was read already.
        joined = wire.EncodeRequest.model_construct(
            _fields_set=requests[0].model_fields_set,
            items=[item for one in requests for item in one.items],
            params=requests[0].params,
        )
        answer = await self._run(key, joined, Share(len(requests), is_first_try=True))
        return _split(answer, [len(one.items) for one in requests])


def _split(answer: wire.EncodeResponse, sizes: Sequence[int]) -> list[wire.EncodeResponse]:
    """Return the answer of each of so many items."""
    answers = []
    start = 0
    for size in sizes:
        items = answer.items[start : start + size]
        start += size
        answers.append(
            wire.of_ours(
                wire.EncodeResponse,
                {
                    "model": answer.model,
                    "items": items,
                    "timing": answer.timing,
                    "usage": wire.Usage(input_tokens=sum([one.num_tokens for one in items])),
                    "revision": answer.revision,
                },
            )
        )
    assert start == len(answer.items)
    return answers


def _group_for(line: _Line, request: wire.EncodeRequest) -> _Group:
    """Return the group that a request joins, counted in."""
    num_items, num_chars = len(request.items), _num_chars(request)
    if not line.groups or not line.groups[-1].has_room(num_items, num_chars):
        line.groups.append(_Group())
    group = line.groups[-1]
    group.num_items += num_items
    group.num_chars += num_chars
    return group


def _num_chars(request: wire.EncodeRequest) -> int:
    return sum([len(one.text or "") for one in request.items])


def _succeed(waiter: "asyncio.Future[wire.EncodeResponse]", answer: wire.EncodeResponse) -> None:
    if not waiter.done():
        waiter.set_result(answer)


def _fail(waiter: "asyncio.Future[wire.EncodeResponse]", error: BaseException) -> None:
    if waiter.done():
        return
    if isinstance(error, asyncio.CancelledError):
        waiter.cancel()
    else:
        waiter.set_exception(error)
