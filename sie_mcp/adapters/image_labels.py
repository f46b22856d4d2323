"""The extract primitive for images: labels of the caller's own, compared with each image.

A label is put into a sentence, and the sentence's vector beside the image's. Encoding and scoring
are those of the model's vectors.
"""

import numpy as np

from sie_mcp import wire
from sie_mcp.adapters.adapter import Outputs, PackedBatch, Prepared, Result
from sie_mcp.adapters.encode import EncodeAdapter
from sie_mcp.adapters.labels import best_first
from sie_mcp.adapters.matching import Matching
from sie_mcp.adapters.options import refuse_others
from sie_mcp.adapters.zero_shot import hypotheses
from sie_mcp.errors import InputTooLong, InvalidInput
from sie_mcp.wire import Request, Response

# As in transformers' pipeline zero-shot-image-classification.
TEMPLATE = "This is a photo of {}."
MAX_LABELS = 4_096
_OPTIONS = ("threshold", "top_k", "raw_scores", "hypothesis_template", "multi_label")


class ImageLabelsAdapter:
    """Classifies images; encodes and scores as the adapter of their vectors does."""

    def __init__(self, vectors: EncodeAdapter, matching: Matching) -> None:
        self.card, self.weights = vectors.card, vectors.weights
        self.tokenizer = vectors.tokenizer
        self._vectors = vectors
        self._matching = matching

    def prepare(self, request: Request) -> Prepared:
        """Read the images and the labels' sentences, or what the vectors' adapter reads."""
        if not isinstance(request, wire.ExtractRequest):
            return self._vectors.prepare(request)
        self._check(request)
        prepared = self._vectors.prepare(self._as_encode(request))
        labels = _labels(request)
        for label, reading in zip(labels, prepared.notes[-len(labels) :], strict=True):
            if reading.truncated:
                raise InputTooLong(
                    f"label {label!r} is longer than the {self.card.max_sequence_length} tokens "
                    f"that {self.card.name} reads; shorten it or hypothesis_template"
                )
        return prepared

    def forward(self, batch: PackedBatch) -> Outputs:
        """Return vectors."""
        return self._vectors.forward(batch)

    def finish(self, request: Request, prepared: Prepared, outputs: list[Result]) -> Response:
        """Compare each image with all labels, the best first."""
        if not isinstance(request, wire.ExtractRequest):
            return self._vectors.finish(request, prepared, outputs)
        response = self._vectors.finish(self._as_encode(request), prepared, outputs)
        assert isinstance(response, wire.EncodeResponse)
        num_items = len(request.items)
        texts = response.items[num_items:]
        error = next((one.error for one in texts if one.error is not None), None)
        vectors = None if error else np.stack([_vector(one) for one in texts])
        items = [self._classify(one, vectors, error, request) for one in response.items[:num_items]]
        return wire.ExtractResponse(model=self.card.name, items=items, usage=response.usage)

    def _check(self, request: wire.ExtractRequest) -> None:
        options = request.params.options
        refuse_others(options, _OPTIONS, f"{self.card.name} with images")
        if request.params.instruction:
            raise InvalidInput(f"{self.card.name} takes no instruction with images")
        for index, item in enumerate(request.items):
            if item.images is None:
                raise InvalidInput(f"items[{index}]: {self.card.name} classifies images, not texts")
        if not request.params.labels:
            raise InvalidInput(f"{self.card.name} has no labels of its own; send `labels`")
        if len(request.params.labels) > MAX_LABELS:
            raise InvalidInput(f"more than {MAX_LABELS:,} labels; send them in several requests")
        if options.raw_scores and options.threshold is not None:
            raise InvalidInput("threshold is for probabilities, raw_scores asks for logits")
        alone = self._matching.is_each_alone
        if options.multi_label not in (None, alone):
            what = "judges each label alone" if alone else "compares labels with each other"
            raise InvalidInput(f"{self.card.name} {what}; leave multi_label out")

    def _as_encode(self, request: wire.ExtractRequest) -> wire.EncodeRequest:
        template = request.params.options.hypothesis_template or TEMPLATE
        sentences = [wire.Item(text=one) for one in hypotheses(_labels(request), template)]
        options = wire.EncodeOptions(normalize=True, lora=request.params.options.lora)
        params = wire.EncodeParams(output_types=["dense"], options=options)
        return wire.EncodeRequest(items=[*request.items, *sentences], params=params)

    def _classify(
        self,
        item: wire.EncodedItem,
        labels: np.ndarray | None,
        error: wire.ItemError | None,
        request: wire.ExtractRequest,
    ) -> wire.ExtractedItem:
        found = wire.ExtractedItem(
            id=item.id, num_tokens=item.num_tokens, error=item.error or error
        )
        if found.error is not None or labels is None:
            return found
        options = request.params.options
        scores = self._matching.of_labels(labels @ _vector(item), raw=options.raw_scores)
        pairs = zip(_labels(request), scores.tolist(), strict=True)
        best = best_first(pairs, options.threshold, options.top_k)
        return found.model_copy(update={"classifications": best})


def _labels(request: wire.ExtractRequest) -> list[str]:
    """Return the caller's labels, each once."""
    return list(dict.fromkeys(request.params.labels or []))


def _vector(item: wire.EncodedItem) -> np.ndarray:
    assert item.dense is not None
    return item.dense.values
