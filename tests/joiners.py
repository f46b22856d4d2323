"""What is joined in tests: requests, a small engine that answers them, and time that is bounded."""

import asyncio
from dataclasses import dataclass, field

from sie_mcp import wire
from sie_mcp.errors import InvalidInput, QueueFull
from sie_mcp.joining import Joiner


def encode(*texts: str, **params) -> wire.EncodeRequest:
    return wire.EncodeRequest(
        items=[wire.Item(text=text) for text in texts],
        **({"params": wire.EncodeParams(**params)} if params else {}),
    )


@dataclass
class Engine:
    """Answers with as many tokens as a text has letters; what it is told to refuse, it refuses."""

    gate: asyncio.Event = field(default_factory=asyncio.Event)
    calls: list[tuple[object, list[str], int]] = field(default_factory=list)
    cancelled: int = 0
    error: Exception | None = None
    room: int = 1_000

    async def run(self, key, request, share):
        texts = [one.text for one in request.items]
        self.calls.append((key, texts, share.number))
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.error is not None:
            raise self.error
        if len(texts) > self.room:
            raise QueueFull("full", retry_after_s=1)
        for place, text in enumerate(texts):
            if text == "":
                raise InvalidInput(f"items[{place}].text is empty")
        items = [wire.EncodedItem(id=one.id, num_tokens=len(one.text)) for one in request.items]
        return wire.EncodeResponse(model="m", items=items, revision="r1")


def play(scenario, max_running: int = 2):
    async def whole():
        engine = Engine()
        joiner = Joiner(engine.run, max_running=max_running)
        async with asyncio.timeout(10):
            await scenario(engine, joiner)

    asyncio.run(whole())


@dataclass
class Gates:
    """Open to who comes first, and then shut until it is opened."""

    open: asyncio.Event = field(default_factory=asyncio.Event)
    is_first: bool = True

    async def wait(self):
        if self.is_first:
            self.is_first = False
            return
        await self.open.wait()


async def until(condition) -> None:
    """Let others run until it holds; the scenario's time bounds it."""
    while not condition():
        await asyncio.sleep(0)
