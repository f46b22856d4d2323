"""One file from a URL to disk: resumed after a break, retried a few times, hash-checked.

Knows HTTP and file:// URLs; knows nothing of indexes, archives or models.
"""

import errno
import hashlib
import shutil
import urllib.parse
import urllib.request
from http import HTTPStatus
from pathlib import Path
from typing import BinaryIO

import httpx2
import tenacity

from sie_mcp import __version__
from sie_mcp.catalogue.options import FetchOptions
from sie_mcp.errors import DownloadFailed

MAX_FILE_BYTES = 16 * 1024**3
MAX_REDIRECTS = 5
_ATTEMPTS = 5
_RETRIED_STATUS = {408, 425, 429, 500, 502, 503, 504}


def transfer(url: str, part: Path, *, label: str, options: FetchOptions) -> None:
    """Bring the whole of `url` into `part`, going on from what is there if the server allows it.

    Raises:
        DownloadFailed: no attempt got to the end; `part` stays, for the next time.
        OSError: the disk is full or refuses.
    """
    parsed = urllib.parse.urlparse(url)
    if parsed.scheme == "file":
        _copy(Path(urllib.request.url2pathname(parsed.path)), part, label, options)
        return
    host = parsed.hostname or url
    retrying = tenacity.Retrying(
        stop=tenacity.stop_after_attempt(_ATTEMPTS),
        wait=tenacity.wait_exponential(multiplier=0.1, max=4),
        retry=tenacity.retry_if_exception(_is_worth_a_retry),
        reraise=True,
    )
    client = httpx2.Client(
        timeout=options.timeout_s,
        follow_redirects=True,
        max_redirects=MAX_REDIRECTS,
        headers={"User-Agent": f"sie-mcp/{__version__}", "Accept-Encoding": "identity"},
    )
    try:
        with client:
            retrying(_receive, client, url, part, label, options)
    except httpx2.HTTPStatusError as error:
        raise DownloadFailed(f"HTTP {error.response.status_code} from {host}") from error
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise DownloadFailed(f"{host}: {error or type(error).__name__}") from error


def check_hash(file: Path, sha256: str) -> None:
    """Compare the file with its pinned hash; remove it if it is another file.

    Raises:
        DownloadFailed: the hashes differ; both are named.
    """
    with file.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != sha256:
        discard(file)
        raise DownloadFailed(f"wrong content: sha256 {found}, expected {sha256}")


def discard(part: Path) -> None:
    """Remove a part and what was remembered about it."""
    part.unlink(missing_ok=True)
    _validator_file(part).unlink(missing_ok=True)


def refuse_full_disk(folder: Path, needed_bytes: int) -> None:
    """Find out before the download, not at its end, that there is no room.

    Raises:
        OSError: fewer bytes are free than needed.
    """
    if shutil.disk_usage(folder).free < needed_bytes:
        raise with_need(OSError(errno.ENOSPC, "too little is free", str(folder)), needed_bytes)


def with_need(error: OSError, needed_bytes: int) -> OSError:
    """Return the error of a disk with how much room it takes to go on."""
    reason = f"{error.strerror}; {max(needed_bytes, 0) / 1e6:.0f} MB needed"
    return OSError(error.errno, reason, error.filename)


def _receive(
    client: httpx2.Client, url: str, part: Path, label: str, options: FetchOptions
) -> None:
    have, headers = _resume_point(part)
    with client.stream("GET", url, headers=headers) as response:
        if response.status_code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            if have and response.headers.get("Content-Range") == f"bytes */{have}":
                return  # It was whole already; the last run ended before it was used.
            discard(part)
        response.raise_for_status()
        if response.status_code != HTTPStatus.PARTIAL_CONTENT or not _starts_at(response, have):
            have = 0
        length = int(response.headers.get("Content-Length", 0))
        total = have + length if length else 0
        _refuse_too_large(label, total)
        refuse_full_disk(part.parent, total - have)
        _remember_validator(part, response)
        with part.open("ab" if have else "wb") as stream:
            options.report(label, have, total)
            for chunk in response.iter_raw():
                _write(stream, chunk, total - have)
                have += len(chunk)
                _refuse_too_large(label, have)
                options.report(label, have, total)
    if total and have != total:
        raise httpx2.RemoteProtocolError(f"got {have} of {total} bytes")


def _write(stream: BinaryIO, chunk: bytes, left_bytes: int) -> None:
    try:
        stream.write(chunk)
        # What does not fit shows here, not when the file is closed.
        stream.flush()
    except OSError as error:
        raise with_need(error, left_bytes) from error


def _resume_point(part: Path) -> tuple[int, dict[str, str]]:
    # Without a validator nobody can say that the server still has the same bytes: start over.
    try:
        have, validator = part.stat().st_size, _validator_file(part).read_text("utf-8")
    except OSError:
        return 0, {}
    return (have, {"Range": f"bytes={have}-", "If-Range": validator}) if have else (0, {})


def _starts_at(response: httpx2.Response, have: int) -> bool:
    content_range: str = response.headers.get("Content-Range", "")
    return content_range.startswith(f"bytes {have}-")


def _remember_validator(part: Path, response: httpx2.Response) -> None:
    etag = response.headers.get("ETag", "")
    validator = (
        etag if etag and not etag.startswith("W/") else response.headers.get("Last-Modified")
    )
    if validator:
        _validator_file(part).write_text(validator, "utf-8")
    else:
        _validator_file(part).unlink(missing_ok=True)


def _validator_file(part: Path) -> Path:
    return part.with_name(part.name + ".validator")


def _refuse_too_large(label: str, size: int) -> None:
    if size > MAX_FILE_BYTES:
        raise DownloadFailed(f"{label} has {size} bytes; the limit is {MAX_FILE_BYTES}")


def _is_worth_a_retry(error: BaseException) -> bool:
    if isinstance(error, httpx2.HTTPStatusError):
        status = error.response.status_code
        return status in _RETRIED_STATUS or status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE
    return isinstance(error, httpx2.TransportError) and not isinstance(
        error, httpx2.UnsupportedProtocol
    )


def _copy(origin: Path, part: Path, label: str, options: FetchOptions) -> None:
    if not origin.is_file():
        raise DownloadFailed(f"{origin} is not a file")
    total = origin.stat().st_size
    _refuse_too_large(label, total)
    refuse_full_disk(part.parent, total)
    shutil.copyfile(origin, part)
    options.report(label, total, total)
