"""Ports for programs that are told theirs when they start."""

import random
import socket

# Below those that systems give to whoever asks for any: a server of another process that takes one
# of these between the look and the start would answer in the program's place.
_PORTS = range(20_000, 32_000)
_TRIES = 100


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port that nobody listens on, and that nobody is given who did not name it.

    Raises:
        OSError: none of those tried is free.
    """
    for port in random.SystemRandom().sample(_PORTS, _TRIES):
        with socket.socket() as probe:
            try:
                probe.bind((host, port))
            except OSError:
                continue
            return port
    raise OSError(f"no port of {_PORTS.start} to {_PORTS.stop - 1} is free on {host}")
