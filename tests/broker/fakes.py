"""A broker in memory, as far as senders and runners go."""

from collections.abc import Mapping

from sie_mcp.broker.broker import Bounds, Heard, Place, Record


class FakeBroker:
    """Keeps what it is given; `heard` by subject."""

    def __init__(self, inline_bytes: int = 1_000) -> None:
        self.bounds = Bounds()
        self.is_up = True
        self.inline_bytes = inline_bytes
        self.put_there: list[tuple[str, bytes, Mapping[str, str]]] = []
        self.removed: list[Place] = []
        self.said: list[tuple[str, bytes, Mapping[str, str]]] = []
        self.bodies: dict[str, bytes] = {}
        self.records: dict[str, Record] = {}
        self.listeners: dict[str, Heard] = {}

    async def put(self, subject: str, data: bytes, headers: Mapping[str, str]) -> Place:
        self.put_there.append((subject, data, dict(headers)))
        return Place("stream", len(self.put_there))

    async def remove(self, place: Place) -> None:
        self.removed.append(place)

    async def say(self, subject: str, data: bytes, headers: Mapping[str, str]) -> None:
        self.said.append((subject, data, dict(headers)))
        if subject in self.listeners:
            await self.listeners[subject](data, headers)

    async def hear(self, subject: str, heard: Heard) -> None:
        self.listeners[subject] = heard

    def inbox(self) -> str:
        return "inbox"

    async def keep(self, kind: str, name: str, data: bytes) -> None:
        self.bodies[name] = data

    async def kept(self, kind: str, name: str) -> bytes | None:
        return self.bodies.get(name)

    async def forget(self, kind: str, name: str) -> None:
        self.bodies.pop(name, None)

    async def record(self, name: str) -> Record | None:
        return self.records.get(name)

    async def next_record(self, name: str, value: bytes, after: Record) -> bool:
        if self.records[name].revision != after.revision:
            return False
        self.records[name] = Record(value, after.revision + 1)
        return True


class FakeDelivery:
    """A message in hand; `words` is what the broker was told of it."""

    def __init__(self, data: bytes, headers: Mapping[str, str], times: int = 1) -> None:
        self.data, self.headers, self.times, self.age_s = data, headers, times, 0.0
        self.words: list[str] = []

    async def done(self) -> None:
        self.words.append("done")

    async def in_work(self) -> None:
        self.words.append("in work")

    async def hand_back(self) -> None:
        self.words.append("hand back")
