"""Texts and images as models of pages read them: their processor's prompts and tensors."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from sie_mcp.adapters.adapter import Sequence
from sie_mcp.adapters.generic.inputs import Parts, Seen
from sie_mcp.adapters.pictures import open_picture
from sie_mcp.adapters.results import limit_length
from sie_mcp.errors import InputTooLong, InvalidImage, InvalidInput

# What a processor makes of images it has no way to read: too narrow a one, a size of nothing.
_UNREADABLE = (ArithmeticError, LookupError, TypeError, ValueError, RuntimeError)


class PageReader:
    """Makes what runs of a query or of a page."""

    def __init__(self, parts: Parts) -> None:
        self._name, self._processor = parts.card.name, parts.processor
        self._limit = parts.card.max_sequence_length
        self._config = parts.module.config.vlm_config
        # Where images lie in a plane, their positions are counted in two directions.
        self._positions: Callable[..., Any] | None = getattr(
            parts.module.vlm, "get_rope_index", None
        )
        # Its tokenizer keeps how it fills up from call to call.
        self._lock = threading.Lock()
        self._num_own = self._tensors(self._processor.process_queries, [""])["input_ids"].numel()

    def query(
        self, text: str, where: str, asked: int | None, *, may_cut: bool
    ) -> tuple[Sequence, bool]:
        """Return what runs of a text, and whether it was cut.

        Raises:
            InputTooLong: it is, and may not be.
            InvalidInput: it holds the sign that stands for an image; `asked` is out of range.
        """
        sign = self._processor.image_token
        if sign in text:
            raise InvalidInput(f"{where} holds {sign}, which stands for an image; leave it out")
        limit = limit_length(asked, self._limit)
        room = None if limit is None else max(limit - self._num_own, 0)
        kept = self._cut(text, room)
        is_cut = len(kept) < len(text)
        if is_cut and not may_cut:
            raise InputTooLong(
                f"{where} has more than {room} tokens beside the {self._num_own} of the model's "
                "own; split it or allow truncation"
            )
        tensors = self._tensors(self._processor.process_queries, [kept])
        return _sequence(tensors, "query", (0, 0)), is_cut

    def page(self, data: bytes) -> Sequence:
        """Return what runs of an image.

        Raises:
            InvalidImage: it cannot be read, or makes more tokens than the model reads.
        """
        picture = open_picture(data)
        try:
            tensors = self._tensors(self._processor.process_images, [picture])
        except _UNREADABLE as error:
            reason = str(error) or type(error).__name__
            raise InvalidImage(f"{self._name} cannot read the image: {reason:.200}") from error
        num_tokens = tensors["input_ids"].numel()
        if self._limit is not None and num_tokens > self._limit:
            raise InvalidImage(
                f"the image makes {num_tokens:,} tokens, {self._name} reads {self._limit:,}; "
                "send it smaller"
            )
        if self._positions is not None:
            tensors["position_ids"] = self._placed(tensors)
        return _sequence(tensors, "page", (picture.height, picture.width))

    def _tensors(self, process: Callable[..., Any], items: list[Any]) -> dict[str, torch.Tensor]:
        with self._lock:
            made = process(items)
        return {name: one for name, one in made.items() if name != "labels"}

    def _cut(self, text: str, room: int | None) -> str:
        """Return as much of the text as makes so many tokens."""
        if room is None:
            return text
        with self._lock:
            read = self._processor.tokenizer(
                text, add_special_tokens=False, return_offsets_mapping=True
            )
        ends = [end for _, end in read["offset_mapping"]]
        if len(ends) <= room:
            return text
        return text[: ends[room - 1]] if room else ""

    def _placed(self, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return the tokens' positions, `(1, 3, num_tokens)`: as in training, where the model's
        class leaves those of images out.
        """
        assert self._positions is not None
        ids = tensors["input_ids"]
        kinds = (ids == self._config.image_token_id).int()
        placed, _ = self._positions(
            ids, mm_token_type_ids=kinds, image_grid_thw=tensors["image_grid_thw"]
        )
        # The batch first, as in all other tensors.
        return torch.as_tensor(placed).transpose(0, 1).contiguous()


def _sequence(tensors: dict[str, torch.Tensor], kind: str, size: tuple[int, int]) -> Sequence:
    seen = Seen(tensors, (kind,), size)
    ids = np.zeros(tensors["input_ids"].numel(), np.int64)
    return Sequence(ids, outputs=frozenset({"multivector"}), extra=seen)
