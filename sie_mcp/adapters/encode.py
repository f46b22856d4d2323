"""The encode primitive: items to sequences, one forward for all outputs, rows to vectors.

Knows prompts, lengths and which outputs were asked for; each output's maths is its own task's.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from sie_mcp import wire
from sie_mcp.adapters.adapter import (
    Outputs,
    PackedBatch,
    Prepared,
    Result,
    Sequence,
)
from sie_mcp.adapters.encoded import encode_response, query_and_items
from sie_mcp.adapters.heaviest import Limited
from sie_mcp.adapters.ids_only import TokenIds
from sie_mcp.adapters.layers.maxsim import Compared, Question
from sie_mcp.adapters.loaded import Loaded
from sie_mcp.adapters.lora import Lora
from sie_mcp.adapters.lora_hooks import with_loras
from sie_mcp.adapters.matching import is_crossed
from sie_mcp.adapters.output import Output, PictureReading
from sie_mcp.adapters.prompts import choose_lora, choose_prompt
from sie_mcp.adapters.results import (
    Reading,
    has_image,
    limit_length,
    refuse_truncation,
    text_of,
)
from sie_mcp.adapters.similarity import Similarity
from sie_mcp.adapters.static_queries import StaticQueries
from sie_mcp.errors import InvalidImage, InvalidInput
from sie_mcp.wire import Request, Response


class EncodeAdapter:
    """Encode with any of the model's outputs, and score by their similarity."""

    def __init__(
        self,
        loaded: Loaded,
        outputs: Mapping[str, Output],
        similarity: Similarity,
        queries: StaticQueries | None = None,
        pictures: PictureReading | None = None,
    ) -> None:
        self.card, self.weights = loaded.card, loaded.weights
        self.tokenizer = loaded.tokenizer
        self._recipe = loaded.recipe
        self._model = loaded.model
        self._loras = loaded.loras
        self._outputs = outputs
        self._similarity = similarity
        self._queries = queries
        self._pictures = pictures
        # Static models drop unknown tokens and use no special ones, as model2vec does.
        self._is_static = loaded.recipe.architecture == "static"
        drops_unknown = loaded.recipe.config.get("drop_unknown")
        self._unknown_id = loaded.tokenizer.unknown_id() if drops_unknown else None

    def prepare(self, request: Request) -> Prepared:
        """Tokenise the items, or the query and the items of a score request."""
        if isinstance(request, wire.EncodeRequest):
            return self._prepare(request.items, request.params)
        if isinstance(request, wire.ScoreRequest):
            return self._prepare_score(request)
        raise InvalidInput(f"{self.card.name} cannot extract; it can {self._can()}")

    @with_loras
    def forward(self, batch: PackedBatch) -> Outputs:
        """Run the architecture once, then every output that the batch asks for."""
        hidden_states = self._model.states(batch)
        outputs: Outputs = {}
        for name in sorted(batch.outputs):
            outputs.update(self._outputs[name].forward(hidden_states, batch))
        return outputs

    def finish(self, request: Request, prepared: Prepared, outputs: list[Result]) -> Response:
        """Build the answer, one entry an item in order."""
        if isinstance(request, wire.ScoreRequest):
            return self._similarity.finish(self.card.name, request, prepared, outputs)
        assert isinstance(request, wire.EncodeRequest)
        params = request.params
        names = params.output_types or [self._default_output()]

        def vectors(_: Any, rows: Any, sequences: Any) -> Iterator[dict[str, Any]]:
            columns = [self._outputs[name].results(rows, sequences, params) for name in names]
            return (dict(zip(names, own, strict=True)) for own in zip(*columns, strict=True))

        return encode_response(self.card.name, request, prepared, outputs, vectors)

    def _prepare(self, items: list[wire.Item], params: wire.EncodeParams) -> Prepared:
        names = params.output_types or [self._default_output()]
        outputs = [self._output(name) for name in names]
        for output in outputs:
            output.check(params)
        options = params.options
        # But for its prompt, an item without a role is a document.
        is_query = bool(options.is_query)
        limits = [
            output.max_length(is_query=is_query) or self._recipe.max_length for output in outputs
        ]
        native = min((limit for limit in limits if limit is not None), default=None)
        limit = limit_length(options.max_length, native)
        are_images = [has_image(item) for item in items]
        texts = [
            "" if is_image else text_of(item, index)
            for index, (item, is_image) in enumerate(zip(items, are_images, strict=True))
        ]
        prompt = choose_prompt(self._recipe, params)
        if is_query and self._queries is not None:
            return self._prepare_static(self._queries, [prompt + text for text in texts], options)
        lora = self._loras.get(choose_lora(self._recipe, options))
        tokens = self._tokens(texts, prompt, limit)
        limited = options.max_active_dims
        extra = None if limited is None or "sparse" not in names else Limited(limited)
        skipped = (
            self.tokenizer.num_leading(prompt) if prompt and not self._recipe.include_prompt else 0
        )
        sources = frozenset(output.source for output in outputs)
        sequences: list[Sequence] = []
        readings: list[Reading] = []
        for index, (one, is_image) in enumerate(zip(tokens, are_images, strict=True)):
            if is_image:
                readings.append(self._read_image(items[index], sequences))
                continue
            if one.truncated:
                refuse_truncation(f"items[{index}]", limit, one, allowed=options.truncate)
            sequence = self._sequence(one, sources, skipped, lora)
            if extra is not None:
                sequence = replace(sequence, extra=extra)
            for output in outputs:
                sequence = output.expand(sequence, is_query=is_query)
            num_tokens = sequence.num_tokens
            place = len(sequences) if num_tokens else None
            readings.append(Reading(place, num_tokens, one.truncated))
            if place is not None:
                sequences.append(sequence)
        return Prepared(sequences, readings)

    def _read_image(self, item: wire.Item, sequences: list[Sequence]) -> Reading:
        """Add the sequence of an image; one that cannot be read fails alone."""
        if self._pictures is None or item.images is None:
            raise InvalidInput(f"{self.card.name} reads texts, not images")
        try:
            sequence = self._pictures.sequence(item.images[0].data)
        except InvalidImage as error:
            return Reading(None, 0, truncated=False, error=error)
        sequences.append(sequence)
        return Reading(len(sequences) - 1, sequence.num_tokens, truncated=False)

    def _prepare_static(
        self, queries: StaticQueries, texts: list[str], options: wire.EncodeOptions
    ) -> Prepared:
        """Prepare queries whose tokens are only looked up."""
        limit = limit_length(options.max_length, queries.max_length)
        readings = []
        for index, tokens in enumerate(queries.tokens(texts, limit)):
            refuse_truncation(f"items[{index}]", limit, tokens, allowed=options.truncate)
            sequence = Sequence(tokens.ids)
            readings.append(Reading(None, len(tokens.ids), tokens.truncated, sequence))
        return Prepared([], readings)

    def _sequence(
        self, tokens: TokenIds, outputs: frozenset[str], skipped: int, lora: Lora | None
    ) -> Sequence:
        ids = tokens.ids
        num_prompt_tokens = min(skipped, len(ids)) if skipped else 0
        if self._unknown_id is not None:
            ids = ids[ids != self._unknown_id]
        return Sequence(ids, tokens.type_ids, outputs, num_prompt_tokens, lora=lora)

    def _tokens(self, texts: list[str], prompt: str, limit: int | None) -> list[TokenIds]:
        """Tokenise, after a cut by characters where the reference makes one (model2vec)."""
        median: int | None = self._recipe.config.get("median_token_length")
        most = None if median is None or limit is None else limit * median
        tokens = self.tokenizer.encode_ids(
            [prompt + text[:most] for text in texts], limit, special_tokens=not self._is_static
        )
        if most is None:
            return tokens
        return [
            one if len(text) <= most else replace(one, truncated=True)
            for one, text in zip(tokens, texts, strict=True)
        ]

    def _prepare_score(self, request: wire.ScoreRequest) -> Prepared:
        """Prepare the query as a query and the items as documents, in one list."""
        if request.options.label is not None:
            raise InvalidInput(f"{self.card.name} scores by similarity: it has no labels")
        is_crossed(request)
        outputs = self._similarity.outputs(request.options)
        shared = request.options.model_dump(include={"truncate", "max_length", "lora"})
        query, items = (
            self._prepare(
                group,
                wire.EncodeParams(
                    output_types=outputs,
                    instruction=request.instruction if is_query else None,
                    options=wire.EncodeOptions(is_query=is_query, **shared),
                ),
            )
            for group, is_query in (([request.query], True), (request.items, False))
        )
        if "multivector" in outputs:
            question = Question()
            for group, is_query in ((query, True), (items, False)):
                compared = Compared(question, is_query)
                group.sequences = [replace(one, extra=compared) for one in group.sequences]
        return query_and_items(query, items)

    def _default_output(self) -> wire.OutputType:
        return next(iter(self._outputs.values())).name

    def _output(self, name: wire.OutputType) -> Output:
        if name not in self._outputs:
            known = ", ".join(self._outputs)
            raise InvalidInput(f"{self.card.name} has no {name} output; it has: {known}")
        return self._outputs[name]

    def _can(self) -> str:
        return f"encode ({', '.join(self._outputs)}) and score"
