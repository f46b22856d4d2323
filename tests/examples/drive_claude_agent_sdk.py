"""Runs the Claude Agent SDK example with a scripted model behind the real Claude Code program.

The program comes with the SDK. It is told, by its own variables, that the Messages API is a server
of this process; nothing else is spoken to.
"""

import asyncio
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from examples.task import TASK
from examples.with_claude_agent_sdk import classify
from tests.examples.script import TOOL, Call, next_move, server_given

MODEL = "claude-sonnet-4-5"
# What Claude Code would ask for beside the model's answers, all of it off.
QUIET = (
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    "DISABLE_AUTOUPDATER",
    "DISABLE_ERROR_REPORTING",
    "DISABLE_TELEMETRY",
)


class Messages(BaseHTTPRequestHandler):
    """The Messages API, as far as Claude Code needs it."""

    def do_POST(self) -> None:  # the name that http.server calls
        """Play the model."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.path.startswith("/v1/messages?") and self.path != "/v1/messages":
            self.send_error(404)
            return
        try:
            message = _message(_block(_move(body)))
        except (AssertionError, ValueError, LookupError) as error:
            self.send_error(400, repr(error)[:200])  # any other status would be tried again
            raise
        if body.get("stream"):
            self._send("text/event-stream", "".join(_events(message)))
        else:
            self._send("application/json", json.dumps(message))

    def do_GET(self) -> None:  # as above
        """Know nothing else."""
        self.send_error(404)

    def log_message(self, *_: Any) -> None:
        """Keep stderr for what goes wrong."""

    def _send(self, media_type: str, text: str) -> None:
        content = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _move(body: dict[str, Any]) -> Call | str:
    offered = [tool["name"] for tool in body.get("tools", [])]
    if not any(name.endswith(TOOL) for name in offered):
        return "ok"  # a question of the program's own, such as a title for the conversation
    blocks: list[dict[str, Any]] = []
    for message in body["messages"]:
        content = message["content"]
        blocks += [{"type": "text", "text": content}] if isinstance(content, str) else content
    (task,) = [one["text"] for one in blocks if one["type"] == "text" and TASK in one["text"]]
    results = [one["content"] for one in blocks if one["type"] == "tool_result"]
    return next_move(task.strip(), offered, results)


def _block(move: Call | str) -> dict[str, Any]:
    if isinstance(move, str):
        return {"type": "text", "text": move}
    id = f"toolu_{len(json.dumps(move.arguments))}"
    return {"type": "tool_use", "id": id, "name": move.name, "input": move.arguments}


def _message(block: dict[str, Any]) -> dict[str, Any]:
    stop = "tool_use" if block["type"] == "tool_use" else "end_turn"
    return {
        "id": "msg_scripted",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": [block],
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def _events(message: dict[str, Any]) -> Iterator[str]:
    """Tell a message in the events of a stream."""
    (block,) = message["content"]
    if block["type"] == "text":
        empty = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": block["text"]}
    else:
        empty = {**block, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    stop = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    for kind, fields in (
        ("message_start", {"message": {**message, "content": [], "stop_reason": None}}),
        ("content_block_start", {"index": 0, "content_block": empty}),
        ("content_block_delta", {"index": 0, "delta": delta}),
        ("content_block_stop", {"index": 0}),
        ("message_delta", {"delta": stop, "usage": {"output_tokens": 1}}),
        ("message_stop", {}),
    ):
        yield f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n"


@contextmanager
def serving() -> Iterator[str]:
    """Serve until the block ends; yield the URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Messages)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join(5)
        server.server_close()


def main() -> None:
    """Run the example against the scripted model."""
    with serving() as url:
        os.environ |= dict.fromkeys(QUIET, "1")
        os.environ |= {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "scripted"}
        print(asyncio.run(classify(MODEL, server_given())))


if __name__ == "__main__":
    main()
