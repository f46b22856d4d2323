"""Workers as processes that begin at once: `python -m tests.cluster.fleet`.

Reads what a worker needs once. For each line of stdin, a host and a port, it forks a process that
is the real worker program with the settings of the environment, and tells its id.
"""

import os
import signal
import sys

from sie_mcp.config import Config
from sie_mcp.engine.main import run_worker


def main() -> None:
    """Fork until stdin ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # Nobody here waits for them.
    for line in sys.stdin:
        host, port = line.split()
        pid = os.fork()
        if not pid:
            _be_worker(host, int(port))
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()


def _be_worker(host: str, port: int) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    code = 1
    try:
        run_worker(Config(), host=host, port=port)
        code = 0
    finally:
        os._exit(code)


if __name__ == "__main__":
    main()
