"""The extract primitive for images: a text that describes one, or that stands in it.

Written word by word, always the likeliest, so that the same picture has the same text.
"""

from typing import Any

import torch
from PIL import Image

from sie_mcp import wire
from sie_mcp.adapters.adapter import Outputs, PackedBatch, Prepared, Result
from sie_mcp.adapters.generic.inputs import Parts, Seen, called, in_groups, joined
from sie_mcp.adapters.generic.reading import answer, read_items
from sie_mcp.adapters.options import refuse_others
from sie_mcp.adapters.tokenizer import TextTokenizer
from sie_mcp.errors import InputTooLong, InvalidInput
from sie_mcp.wire import Request, Response

DEFAULT_TOKENS = 128
# Of what a caller asks.
MAX_ASKED = 128
_OPTIONS = ("max_tokens",)


class WriterAdapter:
    """Writes a text about an image, as a module of transformers does."""

    def __init__(self, parts: Parts) -> None:
        self.card, self.weights, self._family = parts.card, parts.weights, parts.family
        self._module, self._processor = parts.module, parts.processor
        # Texts reach the module by its own processor.
        self.tokenizer: TextTokenizer | None = None
        config = parts.module.config
        self._model_type = str(config.model_type)
        words = getattr(config, "decoder", None) or config.text_config
        # One for what a text starts with.
        self._limit = int(words.max_position_embeddings) - 1

    def prepare(self, request: Request) -> Prepared:
        """Read the images, and what is asked of them."""
        if not isinstance(request, wire.ExtractRequest):
            raise InvalidInput(f"{self.card.name} describes images: it can extract, nothing else")
        refuse_others(request.params.options, _OPTIONS, self.card.name)
        if request.params.labels:
            raise InvalidInput(f"{self.card.name} describes images and takes no labels")
        limit = request.params.options.max_tokens or DEFAULT_TOKENS
        asked = self._asked(request.params.instruction)
        # What is asked stands before what is written, but where an encoder reads it.
        before = 0 if self._family.asks else self._num_tokens(asked)
        limit = min(limit, self._limit - before)

        def see(picture: Image.Image) -> Seen:
            tensors = self._tensors(picture, asked)
            return Seen(tensors, (asked, limit), (picture.height, picture.width), limit)

        return read_items(request, self.card.name, see, limit)

    def forward(self, batch: PackedBatch) -> Outputs:
        """Return "tokens", int64: those that were written, special ones included."""
        dtype = next(self._module.parameters()).dtype

        def written(seen: list[Seen]) -> torch.Tensor:
            inputs = joined(seen, batch.input_ids.device, dtype)
            how = {"max_new_tokens": seen[0].extra, "do_sample": False, "num_beams": 1}
            tokens: torch.Tensor = called(self._module.generate, {**inputs, **how})
            return tokens

        return {"tokens": in_groups(batch, written)}

    def finish(self, request: Request, prepared: Prepared, outputs: list[Result]) -> Response:
        """Turn tokens into text."""
        assert isinstance(request, wire.ExtractRequest)
        tokenizer = self._processor.tokenizer

        def fill(item: wire.ExtractedItem, output: Any, seen: Seen) -> None:
            item.text = tokenizer.decode(output["tokens"], skip_special_tokens=True).strip()
            item.truncated = tokenizer.eos_token_id not in output["tokens"][1:]

        return answer(request, self.card.name, prepared, outputs, fill)

    def _num_tokens(self, asked: str) -> int:
        num = len(self._processor.tokenizer(asked)["input_ids"]) if asked else 0
        most = min(MAX_ASKED, self._limit // 2)
        if num > most:
            raise InputTooLong(f"instruction has {num} tokens; at most {most} work; shorten it")
        return num

    def _asked(self, instruction: str | None) -> str:
        known = self._family.asks
        if not known:
            return instruction or ""
        if instruction is None:
            return known[0]
        if instruction not in known:
            raise InvalidInput(
                f"{self.card.name} does not know instruction {instruction!r:.80}; it knows: "
                f"{', '.join(known)}"
            )
        return instruction

    def _tensors(self, picture: Image.Image, asked: str) -> dict[str, torch.Tensor]:
        if self._family.asks:
            return dict(self._processor(images=[picture], text=[asked], return_tensors="pt"))
        tensors = dict(self._processor.image_processor(images=[picture], return_tensors="pt"))
        if not asked:
            return {"pixel_values": tensors["pixel_values"]}
        is_start = self._model_type == "vision-encoder-decoder"
        read = self._processor.tokenizer(
            asked, add_special_tokens=not is_start, return_tensors="pt"
        )
        own = {"pixel_values": tensors["pixel_values"]}
        if is_start:
            return {**own, "decoder_input_ids": read["input_ids"]}
        return {**own, "input_ids": read["input_ids"], "attention_mask": read["attention_mask"]}
