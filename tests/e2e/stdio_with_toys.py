"""`sie-mcp stdio` whose local worker is the toy worker, with forwards of half a second.

They wait while there is a file `held` in the working folder of the worker.
"""

import os
import sys

import anyio

from sie_mcp.config import load_config
from sie_mcp.gateway.endpoint import make_client
from sie_mcp.gateway.server import build_server
from sie_mcp.gateway.stdio import serve_stdio
from sie_mcp.gateway.supervisor import LocalWorker

COMMAND = [sys.executable, "-m", "tests.toy_worker", "--forward-s", "0.5", "--held-by", "held"]


async def main() -> None:
    config = load_config()
    client = make_client(LocalWorker(config, COMMAND), config)
    server = build_server(client, config, files_allowed=True)
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as stdout:
        await serve_stdio(server, stdout)
    await client.aclose()


if __name__ == "__main__":
    anyio.run(main)
