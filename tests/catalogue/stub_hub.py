"""A small hub: enough of its API for the real huggingface_hub to list and download a repository."""

import hashlib
import json
import re
import threading
from typing import Any

from sie_mcp.catalogue import store
from tests.catalogue.stub_index import WEIGHTS
from tests.catalogue.stub_server import Reply, Request, StubServer

COMMIT = "0123456789abcdef0123456789abcdef01234567"
REPO = "acme/toy"
FILES: dict[str, bytes] = {
    "config.json": b'{"model_type": "bert", "architectures": ["BertModel"]}',
    "model.safetensors": WEIGHTS,
    "modules.json": b"[]",
    "tokenizer.json": b"{}",
    "1_Pooling/config.json": b"{}",
    "LICENSE": b"Apache-2.0",
    "README.md": b"# toy",
    "pytorch_model.bin": b"a pickle" * 100,
    "modeling_toy.py": b"raise SystemExit",
    "onnx/model.onnx": b"another copy",
    "onnx/config.json": b"{}",
}
# What comes of them.
MODEL_FILES = {
    "config.json",
    "model.safetensors",
    "modules.json",
    "tokenizer.json",
    "1_Pooling/config.json",
    "LICENSE",
    store.MANIFEST,
}


class StubHub(StubServer):
    """Serves one repository.

    Attributes:
        failure: Answered to every API call instead, if set: status and error code.
        hold: While set, API calls wait for it.
        served: Contents sent instead of a file's right ones.
        lost: Files that are listed and cannot be had.
        is_gated: Anybody may list the files, and nobody gets one.
        sizes: What the listing says instead of a file's right size.
    """

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.files = dict(FILES)
        self.failure: tuple[int, str] | None = None
        self.hold: threading.Event | None = None
        self.served: dict[str, bytes] = {}
        self.lost: set[str] = set()
        self.is_gated = False
        self.sizes: dict[str, int] = {}

    def _answer(self, request: Request) -> Reply:
        path = request.path.partition("?")[0]
        if path.startswith("/api/"):
            return self._api(path)
        if found := re.fullmatch(rf"/{REPO}/resolve/{COMMIT}/(.+)", path):
            return self._file(found[1])
        return self._error(404, "EntryNotFound")

    def _api(self, path: str) -> Reply:
        if self.failure is not None:
            return self._error(*self.failure)
        if not path.startswith(f"/api/models/{REPO}/"):
            return self._error(404, "RepoNotFound")
        kind, _, revision = path.removeprefix(f"/api/models/{REPO}/").partition("/")
        if revision not in ("main", COMMIT):
            return self._error(404, "RevisionNotFound")
        content: Any = self._tree()
        if kind == "revision":
            siblings = [
                {"rfilename": row["path"], "size": row["size"], "blobId": row["oid"]}
                | ({"lfs": {**row["lfs"], "sha256": row["lfs"]["oid"]}} if "lfs" in row else {})
                for row in content
            ]
            tags = ["bert", "license:apache-2.0"]
            content = {"id": REPO, "sha": COMMIT, "siblings": siblings, "tags": tags}
        headers = {"Content-Type": "application/json"}
        return Reply(json.dumps(content).encode(), headers=headers, hold=self.hold)

    def _tree(self) -> list[dict[str, Any]]:
        rows = []
        for name, content in self.files.items():
            size = self.sizes.get(name, len(content))
            row = {"type": "file", "path": name, "size": size, "oid": git_hash(content)}
            if len(content) > 1000:
                digest = hashlib.sha256(content).hexdigest()
                row["lfs"] = {"oid": digest, "size": len(content), "pointerSize": 130}
            rows.append(row)
        return rows

    def _file(self, name: str) -> Reply:
        if self.is_gated:
            return self._error(403, "GatedRepo")
        if name not in self.files or name in self.lost:
            return self._error(404, "EntryNotFound")
        right = self.files[name]
        etag = hashlib.sha256(right).hexdigest() if len(right) > 1000 else git_hash(right)
        headers = {"ETag": f'"{etag}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        return Reply(self.served.get(name, right), headers=headers)

    def _error(self, status: int, code: str) -> Reply:
        return Reply(status=status, headers={"X-Error-Code": code, "X-Error-Message": code})


def git_hash(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
