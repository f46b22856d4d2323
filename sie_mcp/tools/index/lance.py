"""What the stores share of LanceDB: its errors translated, commits tried again, columns read.

Every write is one commit of Lance: it is there whole or not at all, and others read on meanwhile.
Of two that write at once one may be turned down; it then reads anew and tries again.
Imported at first use, as LanceDB is large. Its calls block: they are made in threads.
"""

import base64
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from sie_mcp.errors import ModelLoading, SettingError

ValueT = TypeVar("ValueT")
# A search that runs meanwhile may still read what was replaced.
KEEP_VERSIONS = timedelta(minutes=30)
# Commits after which small pieces are worth putting together.
MAX_PIECES = 20
MAX_ATTEMPTS = 8
MAX_WAIT_S = 2.0
_PROBE = b"sie.probe"
# Parts of what Lance says of two writers at once, in one of its wordings each.
_CONFLICTS = ("concurrent transaction", "commit conflict", "concurrent writers")


@contextmanager
def storing(uri: str) -> Iterator[None]:
    """Translate what LanceDB raises of the store at `uri`."""
    try:
        yield
    except (OSError, RuntimeError, ValueError) as error:
        if is_conflict(error):
            raise ModelLoading(
                "another machine is indexing this too; what was written is kept"
            ) from error
        reason = str(error).partition("\n")[0]
        raise SettingError(
            f"index_dir: {uri} cannot be used ({reason}); delete it to have it made again, or set "
            "another index_dir"
        ) from error


def opened(database: Any, name: str) -> Any | None:
    """Open a table; None where there is none, or only the place that a writer has begun with."""
    try:
        return database.open_table(name)
    except ValueError as error:
        if not _is_missing(error):
            raise
        return None


def begin(database: Any, name: str, schema: pa.Schema) -> Any:
    """Create a table, or open the one that another writer created first."""
    try:
        return database.create_table(name, schema=schema)
    except ValueError as error:
        if "already exists" not in str(error):
            raise
    # Its place may be there a moment before its first version is.
    attempts = Retrying(
        retry=retry_if_exception(_is_missing),
        stop=stop_after_attempt(MAX_ATTEMPTS),
        wait=wait_random_exponential(multiplier=0.05, max=MAX_WAIT_S),
        reraise=True,
    )
    return attempts(database.open_table, name)


def commit(table: Any, write: Callable[[], ValueT]) -> ValueT:
    """Write to a table; what another writer came before is tried again on the newest version."""
    attempts = Retrying(
        retry=retry_if_exception(is_conflict),
        stop=stop_after_attempt(MAX_ATTEMPTS),
        wait=wait_random_exponential(multiplier=0.05, max=MAX_WAIT_S),
        before_sleep=lambda _: table.checkout_latest(),
        reraise=True,
    )
    return attempts(write)


def is_conflict(error: BaseException) -> bool:
    """Whether another writer was faster."""
    return any(words in str(error).lower() for words in _CONFLICTS)


def _is_missing(error: BaseException) -> bool:
    return isinstance(error, ValueError) and "was not found" in str(error)


def probe_metadata(probe: np.ndarray) -> dict[bytes, bytes]:
    """Return what a table's schema says of the model whose vectors it holds."""
    return {_PROBE: base64.b64encode(probe.astype(np.float32).tobytes())}


def probe_of(metadata: Mapping[bytes, bytes]) -> np.ndarray:
    """Return the probe's vector, float32 `(dims,)`."""
    return np.frombuffer(base64.b64decode(metadata[_PROBE]), np.float32)


def matrix(column: pa.ChunkedArray) -> np.ndarray:
    """Return a column of vectors as float32 `(num_rows, dims)`."""
    values = column.combine_chunks()
    flat: np.ndarray = values.flatten().to_numpy(zero_copy_only=False)
    return flat.reshape(len(values), -1) if len(values) else np.empty((0, 0), np.float32)


def is_in(column: str, values: Collection[str]) -> str:
    """Return the condition that a column is one of some texts."""
    return f"{column} IN ({', '.join(map(quoted, values))})"


def quoted(text: str) -> str:
    """Return a text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"
