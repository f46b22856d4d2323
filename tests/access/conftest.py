"""An issuer of tokens on a real socket, and files of keys."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sie_mcp.access.keys import new_key
from tests.access.issuer import Issuer
from tests.servers import serving


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def issuer() -> AsyncIterator[Issuer]:
    made = Issuer()
    async with serving(made.app()) as url:
        made.url = url
        yield made


class KeyFile:
    """A file of keys, written as an operator does."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.text = ""

    def add(self, name: str, **fields: object) -> str:
        """Add a key; return it."""
        key, entry = new_key(name)
        lines = [f"{field} = {_toml(value)}\n" for field, value in fields.items()]
        self.write(self.text + entry + "".join(lines))
        return key

    def write(self, text: str) -> None:
        """Swap the file for another, as a mounted secret is."""
        self.text = text
        part = self.path.with_suffix(".part")
        part.write_text(text)
        part.replace(self.path)


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if not isinstance(value, str) else f'"{value}"'


@pytest.fixture
def key_file(tmp_path: Path) -> KeyFile:
    return KeyFile(tmp_path / "keys.toml")
