"""Callers of one server in a process of their own, over plain sockets, so that they cost little.

`python -m evals.bench.load_client` reads {"host", "port", "path", "type", "bodies" (base64),
"clients", "seconds"} and prints {"times_s", "failed", "busy_s"}. Every caller keeps its connection
and sends its next request when the last is answered.
"""

import asyncio
import base64
import itertools
import json
import sys
import time
from typing import Any

# Longer than any answer takes that is one.
ANSWER_LIMIT_S = 30.0


def main() -> None:
    """Run what standard input says."""
    print(json.dumps(asyncio.run(load(json.loads(sys.stdin.read())))))


async def load(asked: dict[str, Any]) -> dict[str, Any]:
    """Run callers for some seconds; return the time of each good answer, and how many failed."""
    bodies = [base64.b64decode(one) for one in asked["bodies"]]
    head = (
        f"POST {asked['path']} HTTP/1.1\r\nHost: {asked['host']}\r\n"
        f"Content-Type: {asked['type']}\r\nAccept: {asked['type']}\r\nContent-Length: "
    )
    sent = [f"{head}{len(one)}\r\n\r\n".encode() + one for one in bodies]
    places = itertools.cycle(range(len(sent)))
    times: list[float] = []
    failed = 0
    begun_s = time.perf_counter()

    async def caller() -> None:
        nonlocal failed
        reader, writer = await asyncio.open_connection(asked["host"], asked["port"])
        while True:
            started_s = time.perf_counter()
            writer.write(sent[next(places)])
            async with asyncio.timeout(ANSWER_LIMIT_S):
                is_good = await _answer(reader)
            times.append(time.perf_counter() - started_s)
            failed += not is_good
            if time.perf_counter() - begun_s > asked["seconds"]:
                break
        writer.close()

    await asyncio.gather(*(caller() for _ in range(asked["clients"])))
    return {"times_s": times, "failed": failed, "busy_s": time.perf_counter() - begun_s}


async def _answer(reader: asyncio.StreamReader) -> bool:
    """Read a whole answer; whether it is a good one."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    if b"transfer-encoding: chunked" in head:
        while (size := int(await reader.readline(), 16)) > 0:
            await reader.readexactly(size + 2)
        await reader.readexactly(2)
    else:
        length = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
        await reader.readexactly(int(length))
    return head.split(b" ", 2)[1] == b"200"


if __name__ == "__main__":
    main()
