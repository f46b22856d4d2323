"""uvicorn's server, which lets several callers in at once.

uvloop accepts one connection a turn of its loop for each listener. A busy turn answers hundreds of
requests and takes a tenth of a second: those who come while others call would wait for as many
turns as there are of them. So the socket has several listeners.
"""

import asyncio
import os
import socket
from functools import partial

import uvicorn

# Connections let in by one turn of the loop.
NUM_LISTENERS = 16
# Sockets that are files; Windows has none.
_FILES = {getattr(socket, "AF_UNIX", None)}


class WebServer(uvicorn.Server):
    """A server whose socket is listened on several times; all else is uvicorn's."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say so."""
        await super().startup(sockets)
        # asyncio's own loops let in whoever is there.
        if isinstance(asyncio.get_running_loop(), asyncio.BaseEventLoop):
            return
        for server in list(self.servers):
            for sock in server.sockets:
                await self._listen_again(sock.fileno())

    async def _listen_again(self, descriptor: int) -> None:
        loop, config = asyncio.get_running_loop(), self.config
        for _ in range(NUM_LISTENERS - 1):
            own = socket.socket(fileno=os.dup(descriptor))
            listen = partial(
                loop.create_unix_server if own.family in _FILES else loop.create_server,
                ssl=config.ssl,
                backlog=config.backlog,
            )
            self.servers.append(await listen(self._protocol, sock=own))

    def _protocol(self) -> asyncio.Protocol:
        protocol: asyncio.Protocol = self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return protocol
