"""The extract primitive by labels of the caller's own, read together with the text (GLiClass).

One pass a text, whatever the number of labels. Source: Knowledgator's gliclass, whose pipeline
writes the prompt the same way; where it would cut labels off a long text, the text is cut instead.
"""

from dataclasses import dataclass

import numpy as np

from sie_mcp import wire
from sie_mcp.adapters.adapter import Outputs, PackedBatch, Prepared, Result, Sequence
from sie_mcp.adapters.label_prompts import check_labels
from sie_mcp.adapters.labels import best_first
from sie_mcp.adapters.loaded import Loaded
from sie_mcp.adapters.lora_hooks import with_loras
from sie_mcp.adapters.models.gliclass import GliclassSettings
from sie_mcp.adapters.options import refuse_others
from sie_mcp.adapters.probabilities import activate
from sie_mcp.adapters.recipe import ScoreActivation
from sie_mcp.adapters.results import error_of, text_of
from sie_mcp.adapters.tokenizer import Tokens
from sie_mcp.adapters.widened import widened
from sie_mcp.errors import InputTooLong, InvalidInput, ModelLoadFailed, SieError
from sie_mcp.wire import Request, Response

LABEL, TEXT, EXAMPLE = MARKERS = ("<<LABEL>>", "<<SEP>>", "<<EXAMPLE>>")
OUTPUT = "logits"
_OUTPUTS = frozenset({OUTPUT})
_OPTIONS = ("threshold", "top_k", "raw_scores", "multi_label")


@dataclass(frozen=True, slots=True)
class _Reading:
    """One item: what runs for it, and whether its text was cut."""

    sequence: Sequence
    truncated: bool


class GliclassAdapter:
    """Classifies texts by labels that it was never trained on."""

    def __init__(self, loaded: Loaded) -> None:
        self.card, self.weights = loaded.card, loaded.weights
        self.tokenizer = loaded.tokenizer
        self._recipe = loaded.recipe
        self._model = loaded.model
        self._settings = GliclassSettings.of(loaded.recipe.config)
        _check_markers(self._settings, loaded)

    def prepare(self, request: Request) -> Prepared:
        """Tokenise each text with all labels; a long text is cut, labels never are."""
        if not isinstance(request, wire.ExtractRequest):
            raise InvalidInput(f"{self.card.name} classifies by your labels: it can extract only")
        params = request.params
        refuse_others(params.options, _OPTIONS, self.card.name)
        if params.options.raw_scores and params.options.threshold is not None:
            raise InvalidInput("threshold is for probabilities, raw_scores asks for logits")
        labels = _check_labels(params.labels, self.card.name)
        prompt = "".join([*(f"{LABEL}{label}" for label in labels), TEXT, params.instruction or ""])
        texts = [_plain(text_of(item, index)) for index, item in enumerate(request.items)]
        first = self._settings.prompt_first
        whole = [prompt + text if first else text + prompt for text in texts]
        tokens = self.tokenizer.encode(whole, None, special_tokens=False)
        readings = [self._read(one) for one in tokens]
        return Prepared([one.sequence for one in readings], readings)

    @with_loras
    def forward(self, batch: PackedBatch) -> Outputs:
        """Return for every label its logit, float32."""
        hidden_states = self._model.states(batch)
        # A row a label costs little, and rounded logits tie where scores are close.
        with widened():
            return {OUTPUT: self._model.heads["zero_shot"](hidden_states, batch)}

    def finish(self, request: Request, prepared: Prepared, outputs: list[Result]) -> Response:
        """Turn logits into labels, the surest first."""
        assert isinstance(request, wire.ExtractRequest)
        items = []
        for item, reading, output in zip(request.items, prepared.notes, outputs, strict=True):
            answer = wire.ExtractedItem(id=item.id, error=error_of(output))
            answer.num_tokens, answer.truncated = reading.sequence.num_tokens, reading.truncated
            if not isinstance(output, SieError) and answer.error is None:
                answer.classifications = self._found(output[OUTPUT], request.params)
            items.append(answer)
        usage = wire.Usage(input_tokens=prepared.num_tokens)
        return wire.ExtractResponse(model=self.card.name, items=items, usage=usage)

    def _read(self, tokens: Tokens) -> _Reading:
        """Cut the text, which is at the end, or stands before all labels."""
        limit = self._recipe.max_length
        ids = tokens.ids
        room = len(ids) if limit is None else max(limit - self.tokenizer.num_added, 0)
        fixed = self._num_fixed(ids)
        if len(ids) > room and fixed >= room:
            raise InputTooLong(
                f"the labels have {fixed} tokens and {self.card.name} reads {limit} of labels and "
                "text together; send fewer or shorter labels"
            )
        if self._settings.prompt_first:
            kept = ids[:room]
        else:
            num_text = len(ids) - fixed
            kept = np.concatenate([ids[: min(num_text, room - fixed)], ids[num_text:]])
        sequence = Sequence(self.tokenizer.with_special_tokens(kept), outputs=_OUTPUTS)
        return _Reading(sequence, len(kept) < len(ids))

    def _num_fixed(self, ids: np.ndarray) -> int:
        """Count the tokens that are never cut: those of the labels."""
        if self._settings.prompt_first:
            return int((ids == self._settings.text_id).argmax()) + 1
        return len(ids) - int((ids == self._settings.class_id).argmax())

    def _found(self, logits: np.ndarray, params: wire.ExtractParams) -> list[wire.Classification]:
        options = params.options
        labels = _check_labels(params.labels, self.card.name)
        each_alone = options.multi_label
        if each_alone is None:
            each_alone = self._settings.multi_label
        kind: ScoreActivation = "sigmoid" if each_alone else "softmax"
        scores = activate(logits, "identity" if options.raw_scores else kind).tolist()
        return best_first(zip(labels, scores, strict=True), options.threshold, options.top_k)


def _check_labels(given: list[str] | None, name: str) -> list[str]:
    """Return the caller's labels, each once; one that holds a marker is refused."""
    labels = check_labels(given, name)
    for label in labels:
        for marker in MARKERS:
            if marker in label:
                raise InvalidInput(
                    f"label {label!r} holds {marker!r}, which {name} would read as its own mark"
                )
    return labels


def _plain(text: str) -> str:
    """Return the text with what would be read as a marker broken up."""
    for marker in MARKERS:
        text = text.replace(marker, f"{marker[:2]} {marker[2:]}")
    return text


def _check_markers(settings: GliclassSettings, loaded: Loaded) -> None:
    vocabulary = loaded.tokenizer.vocabulary
    for marker, index in ((LABEL, settings.class_id), (TEXT, settings.text_id)):
        if vocabulary.get(marker) != index:
            raise ModelLoadFailed(
                f"{loaded.card.name}: config.json says that {marker} is token {index}, "
                f"tokenizer.json says {vocabulary.get(marker)}"
            )
