"""The encode and score primitives for images of pages: a vector a token, of pages and of queries.

Source: Faysse et al. 2024 (ColPali). A text is always a query, which the model's processor fills up
with tokens to think on; an image is always a document.
"""

from collections.abc import Iterator
from collections.abc import Sequence as Series
from dataclasses import replace
from typing import Any

import torch

from sie_mcp import wire
from sie_mcp.adapters.adapter import Outputs, PackedBatch, Prepared, Result, Sequence
from sie_mcp.adapters.encoded import encode_response, query_and_items
from sie_mcp.adapters.generic.inputs import Parts, Seen, called, in_groups, joined
from sie_mcp.adapters.generic.page_inputs import PageReader
from sie_mcp.adapters.generic.page_vectors import PageVectors
from sie_mcp.adapters.layers.maxsim import Compared, Question, compared
from sie_mcp.adapters.muvera import MuveraOutput
from sie_mcp.adapters.output import Output
from sie_mcp.adapters.results import Reading, has_image, text_of
from sie_mcp.adapters.similarity import Comparison, Similarity, maxsims
from sie_mcp.adapters.tokenizer import TextTokenizer
from sie_mcp.errors import InvalidImage, InvalidInput
from sie_mcp.wire import Request, Response

_ENCODE = ("is_query", "dimensions", "normalize", "truncate", "max_length", "muvera")
_SCORE = ("weights", "score_mode", "truncate", "max_length")


class PagesAdapter:
    """Compares texts with images of pages token by token, as a module of transformers does."""

    def __init__(self, parts: Parts) -> None:
        self.card, self.weights = parts.card, parts.weights
        # Texts reach the module by its own processor.
        self.tokenizer: TextTokenizer | None = None
        self._module = parts.module
        self._reader = PageReader(parts)
        vectors = PageVectors(parts.card.name, parts.card.dims["multivector"])
        self._outputs: dict[str, Output] = {
            "multivector": vectors,
            "muvera": MuveraOutput(vectors),
        }
        compared = {"multivector": Comparison(vectors.result, maxsims, scored="maxsim")}
        self._similarity = Similarity(compared, {"multivector": 1.0})

    def prepare(self, request: Request) -> Prepared:
        """Read the items, or a text and the images that are scored by it."""
        if isinstance(request, wire.EncodeRequest):
            options, params = request.params.options, request.params
            self._refuse(options, wire.EncodeOptions(), _ENCODE, params.instruction)
            for output in self._chosen(params):
                output.check(params)
            return self._prepare(request.items, options, is_query=options.is_query)
        if isinstance(request, wire.ScoreRequest):
            self._refuse(request.options, wire.ScoreOptions(), _SCORE, request.instruction)
            self._similarity.outputs(request.options)
            query = self._prepare([request.query], request.options, is_query=True)
            pages = self._prepare(request.items, request.options, is_query=False)
            question = Question()
            for part, is_query in ((query, True), (pages, False)):
                role = Compared(question, is_query)
                part.sequences = [
                    replace(one, extra=replace(one.extra, extra=role)) for one in part.sequences
                ]
            return query_and_items(query, pages)
        raise InvalidInput(f"{self.card.name} cannot extract; it can encode and score")

    def forward(self, batch: PackedBatch) -> Outputs:
        """Return "multivector", float32: a unit vector a token; of scored pages "maxsim"."""
        dtype = next(self._module.parameters()).dtype

        def vectors(seen: list[Seen]) -> torch.Tensor:
            inputs = joined(seen, batch.input_ids.device, dtype)
            if "position_ids" in inputs:
                # Directions come first for the library, and the batch where images are joined.
                inputs["position_ids"] = inputs["position_ids"].transpose(0, 1)
            embeddings: torch.Tensor = called(self._module, inputs).embeddings
            return embeddings.float()

        rows = in_groups(batch, vectors)
        if rows.offsets != batch.offsets:
            return {"multivector": rows}
        like = rows.values.new_empty(0, dtype=dtype)
        return compared(rows.values, batch, [one.extra for one in batch.extras], like)

    def finish(self, request: Request, prepared: Prepared, outputs: list[Result]) -> Response:
        """Build the answer, one entry an item in order."""
        if isinstance(request, wire.ScoreRequest):
            return self._similarity.finish(self.card.name, request, prepared, outputs)
        assert isinstance(request, wire.EncodeRequest)
        params = request.params

        def of_one(item: wire.Item, output: Any, sequence: Any) -> dict[str, Any]:
            # What becomes of queries and of documents is not the same (MUVERA).
            options = params.options.model_copy(update={"is_query": not has_image(item)})
            own = params.model_copy(update={"options": options})
            return {one.name: one.result(output, sequence, own) for one in self._chosen(params)}

        def vectors(*of_all: Series[Any]) -> Iterator[dict[str, Any]]:
            return map(of_one, *of_all)

        return encode_response(self.card.name, request, prepared, outputs, vectors)

    def _prepare(
        self,
        items: Series[wire.Item],
        options: wire.EncodeOptions | wire.ScoreOptions,
        *,
        is_query: bool | None,
    ) -> Prepared:
        sequences: list[Sequence] = []
        readings: list[Reading] = []
        for index, item in enumerate(items):
            if is_query is not None and is_query == has_image(item):
                raise InvalidInput(
                    f"items[{index}]: {self.card.name} reads queries as texts and documents as "
                    "images of their pages, not the other way about"
                )
            readings.append(self._read(item, index, options, sequences))
        return Prepared(sequences, readings)

    def _read(
        self,
        item: wire.Item,
        index: int,
        options: wire.EncodeOptions | wire.ScoreOptions,
        sequences: list[Sequence],
    ) -> Reading:
        """Add an item's sequence; an image that cannot be read fails alone."""
        truncated = False
        if item.images is None:
            text = text_of(item, index)
            where = f"items[{index}]"
            sequence, truncated = self._reader.query(
                text, where, options.max_length, may_cut=options.truncate
            )
        else:
            try:
                sequence = self._reader.page(item.images[0].data)
            except InvalidImage as error:
                return Reading(None, 0, truncated=False, error=error)
        sequences.append(sequence)
        return Reading(len(sequences) - 1, sequence.num_tokens, truncated)

    def _chosen(self, params: wire.EncodeParams) -> list[Output]:
        names = params.output_types or ["multivector"]
        for name in names:
            if name not in self._outputs:
                known = ", ".join(self._outputs)
                raise InvalidInput(f"{self.card.name} has no {name} output; it has: {known}")
        return [self._outputs[name] for name in names]

    def _refuse(
        self,
        options: wire.EncodeOptions | wire.ScoreOptions,
        defaults: wire.EncodeOptions | wire.ScoreOptions,
        known: tuple[str, ...],
        instruction: str | None,
    ) -> None:
        """Refuse what was asked for and cannot be honoured."""
        if instruction:
            raise InvalidInput(f"{self.card.name} takes no instruction; its prompts are its own")
        plain = defaults.model_dump()
        for name, value in options.model_dump().items():
            if value != plain[name] and name not in known and value != "":
                raise InvalidInput(
                    f"{self.card.name} has no option {name}; it has: {', '.join(known)}"
                )
