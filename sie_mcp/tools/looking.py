"""Pictures in files, shown to a model part by part, and what it found in each."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import anyio.to_thread

from sie_mcp import wire
from sie_mcp.client import EngineClient, Progress
from sie_mcp.config import Config
from sie_mcp.errors import InvalidInput
from sie_mcp.tools.context import ToolContext
from sie_mcp.tools.failures import raise_if_all_failed
from sie_mcp.tools.image_files import find_images, item_of, parts_of, read_image
from sie_mcp.tools.index.found import File
from sie_mcp.tools.model_cards import AUTO, loaded_card
from sie_mcp.tools.result import Result

MAX_FAILED = 5
_READY = ("loaded", "host", "loading", "available")


class FailedImages(Result):
    """Pictures of which nothing is known, and why of the first of them."""

    count: int
    first: list[str]


@dataclass(slots=True)
class Looked:
    """What is known so far."""

    model: str = ""
    found: dict[str, wire.ExtractedItem] = field(default_factory=dict)
    failed: dict[str, wire.ItemError] = field(default_factory=dict)

    @property
    def failures(self) -> FailedImages | None:
        """What failed, in a few lines."""
        if not self.failed:
            return None
        lines = [f"{path}: {error.message}" for path, error in self.failed.items()]
        return FailedImages(count=len(lines), first=lines[:MAX_FAILED])


async def pictures_of(context: ToolContext, paths: Sequence[str], limit: int) -> list[File]:
    """Find the pictures that paths name.

    Raises:
        InvalidInput: none, or more than the limit.
    """
    await context.progress(0, 1, "looking for pictures")
    found = await anyio.to_thread.run_sync(
        find_images, context.folders, paths, abandon_on_cancel=True
    )
    if len(found.files) > limit:
        raise InvalidInput(
            f"paths: {len(found.files):,} pictures, the limit is {limit:,}; name folders below"
        )
    return list(found.files.values())


async def look_at(
    client: EngineClient,
    config: Config,
    model: str,
    files: Sequence[File],
    params: wire.ExtractParams,
    progress: Progress,
) -> Looked:
    """Read pictures and show them to a model.

    Raises:
        InvalidInput: none of them could be read.
    """
    looked = Looked(model)
    done = 0
    for part in parts_of(files):
        await progress(done, len(files), f"looking with {model}")
        read = await anyio.to_thread.run_sync(_read_all, part, config, looked)
        if read:
            items = [item_of(data) for _, data in read]
            answer = await client.extract(model, items, params, progress=progress)
            looked.model = answer.model
            for (name, _), item in zip(read, answer.items, strict=True):
                if item.error is not None:
                    looked.failed[name] = item.error
                else:
                    looked.found[name] = item
        done += len(part)
    raise_if_all_failed(dict(enumerate(looked.failed.values())), len(files))
    return looked


async def seeing_model(
    client: EngineClient, model: str, output: str, advice: str, progress: Progress
) -> str:
    """Return the model to ask: the one named, or the worker's first that gives this output.

    Raises:
        InvalidInput: none, or the one named gives something else; says what would work.
    """
    if model != AUTO:
        card = await loaded_card(client, model, "extract", progress)
        assert card is not None  # A named one is there, or was not found.
        if output not in card.outputs:
            given = ", ".join(card.outputs) or "nothing"
            raise InvalidInput(f"{card.name} gives {given}, not {output}; {advice}")
        return card.name
    cards = (await client.models()).models
    fitting = [card for card in cards if output in card.outputs and card.state in _READY]
    if not fitting:
        raise InvalidInput(f"no model here gives {output}; {advice}")
    return min(fitting, key=lambda card: _READY.index(card.state)).name


def _read_all(files: Sequence[File], config: Config, looked: Looked) -> list[tuple[str, bytes]]:
    read = []
    for file in files:
        try:
            read.append((file.path.name, read_image(file.path, config)))
        except InvalidInput as error:
            looked.failed[file.path.name] = wire.ItemError(code=error.code, message=str(error))
    return read
