"""A program that a supervisor can start in place of the worker: it starts fast and misbehaves well.

`python stand_in_worker.py --starts FILE [options] --uds PATH`: each start adds a line to FILE.
"""

import argparse
import json
import os
import signal
import socketserver
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler

LEAVING = threading.Event()


class Handler(BaseHTTPRequestHandler):
    """Ready until it is told to leave."""

    def do_GET(self) -> None:
        is_preloading = "--preloading" in sys.argv
        body = b'{"status":"preloading"}' if is_preloading else b""
        self.send_response(503 if LEAVING.is_set() or is_preloading else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Stay silent."""

    def address_string(self) -> str:
        return "local"


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--uds", required=True)
    parser.add_argument("--starts", required=True)
    parser.add_argument("--start-s", type=float, default=0.0)
    parser.add_argument("--leave-s", type=float, default=0.0, help="how long SIGTERM takes")
    parser.add_argument("--preloading", action="store_true", help="say so when asked")
    parser.add_argument("--die", type=int, help="exit at once with this code")
    parser.add_argument("--dying-s", type=float, default=0.0, help="how long that takes")
    flags = parser.parse_args()
    ours = {name: value for name, value in os.environ.items() if name.startswith("SIE_MCP_")}
    with open(flags.starts, "a") as starts:
        starts.write(json.dumps({"pid": os.getpid(), "sid": os.getsid(0), "env": ours}) + "\n")
    if flags.die is not None:
        sys.stderr.write("first line\nsie-mcp: a clear reason\n")
        if flags.dying_s:
            os.closerange(3, 256)
            time.sleep(flags.dying_s)
        sys.exit(flags.die)
    time.sleep(flags.start_s)
    server = Server(flags.uds, Handler)

    def leave(*_: object) -> None:
        LEAVING.set()
        threading.Timer(flags.leave_s, os._exit, [0]).start()

    signal.signal(signal.SIGTERM, leave)
    sys.stderr.write("serving\n")
    server.serve_forever()


if __name__ == "__main__":
    main()
