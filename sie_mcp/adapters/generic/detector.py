"""The extract primitive for images: objects of labels that the caller names, and where they are."""

from typing import Any

import numpy as np
import torch
from PIL import Image

from sie_mcp import wire
from sie_mcp.adapters.adapter import Outputs, PackedBatch, Prepared, Result
from sie_mcp.adapters.generic.inputs import Parts, Seen, called, in_groups, joined
from sie_mcp.adapters.generic.reading import answer, read_items
from sie_mcp.adapters.label_prompts import check_labels
from sie_mcp.adapters.options import refuse_others
from sie_mcp.adapters.probabilities import activate
from sie_mcp.adapters.tokenizer import TextTokenizer
from sie_mcp.errors import InputTooLong, InvalidInput
from sie_mcp.wire import Request, Response
from sie_mcp.wire_images import DetectedObject

MAX_LABELS = 100
# The surest of an image: a detector looks at thousands of places.
MAX_OBJECTS = 300
_OPTIONS = ("threshold", "top_k")
# Score, label, and the middle, width and height of a box as shares of the image.
_WIDTH = 6


class DetectorAdapter:
    """Finds objects in images, as a module of transformers does."""

    def __init__(self, parts: Parts) -> None:
        self.card, self.weights, self._family = parts.card, parts.weights, parts.family
        self._module, self._processor = parts.module, parts.processor
        # Texts reach the module by its own processor.
        self.tokenizer: TextTokenizer | None = None
        config = parts.module.config
        self._reads_words = hasattr(config, "max_text_len")
        positions = config.text_config.max_position_embeddings
        self._limit = int(config.max_text_len if self._reads_words else positions)

    def prepare(self, request: Request) -> Prepared:
        """Read the images and the labels."""
        if not isinstance(request, wire.ExtractRequest):
            raise InvalidInput(f"{self.card.name} finds objects: it can extract, nothing else")
        refuse_others(request.params.options, _OPTIONS, self.card.name)
        if request.params.instruction:
            raise InvalidInput(f"{self.card.name} takes no instruction; name objects as labels")
        labels = check_labels(request.params.labels, self.card.name)
        if len(labels) > MAX_LABELS:
            raise InvalidInput(
                f"{len(labels)} labels; at most {MAX_LABELS} in a request, split them"
            )
        texts, places = self._words(labels) if self._reads_words else self._queries(labels)

        def see(picture: Image.Image) -> Seen:
            pixels = self._processor.image_processor(images=[picture], return_tensors="pt")
            tensors = {**pixels, **texts}
            return Seen(tensors, tuple(labels), (picture.height, picture.width), places)

        return read_items(request, self.card.name, see, int(texts["input_ids"].numel()))

    def forward(self, batch: PackedBatch) -> Outputs:
        """Return "objects", float32: a row a place; score (logit), label and box."""

        def places(seen: list[Seen]) -> torch.Tensor:
            found = called(self._module, joined(seen, batch.input_ids.device, torch.float32))
            logits, boxes = found.logits.float(), found.pred_boxes.float()
            scores, labels = self._best(logits, seen[0])
            return torch.cat([scores[..., None], labels[..., None].float(), boxes], dim=-1)

        return {"objects": in_groups(batch, places)}

    def finish(self, request: Request, prepared: Prepared, outputs: list[Result]) -> Response:
        """Keep what is over the threshold, the surest first, boxes in pixels."""
        assert isinstance(request, wire.ExtractRequest)
        options = request.params.options
        labels = list(dict.fromkeys(request.params.labels or []))
        threshold = self._family.threshold if options.threshold is None else options.threshold
        most = min(options.top_k or MAX_OBJECTS, MAX_OBJECTS)

        def fill(item: wire.ExtractedItem, output: Any, seen: Seen) -> None:
            rows = output["objects"]
            scores = activate(rows[:, 0], "sigmoid")
            best = np.argsort(-scores, kind="stable")[:most]
            best = best[scores[best] > threshold]
            boxes = _in_pixels(rows[best, 2:], seen.size, is_square=self._family.is_square)
            item.objects = [
                DetectedObject(
                    label=labels[int(rows[place, 1])], score=float(scores[place]), bbox=box
                )
                for place, box in zip(best, boxes.tolist(), strict=True)
            ]

        return answer(request, self.card.name, prepared, outputs, fill)

    def _best(self, logits: torch.Tensor, seen: Seen) -> tuple[torch.Tensor, torch.Tensor]:
        """Return each place's score and label, `(num_images, num_places)`."""
        if not self._reads_words:
            best = logits.max(dim=-1)
            return best.values, best.indices
        places: Any = seen.extra
        own = [logits[..., first:last].amax(dim=-1) for first, last in places]
        # Signs between labels score too, as in the reference.
        return logits.amax(dim=-1), torch.stack(own, dim=-1).argmax(dim=-1)

    def _queries(self, labels: list[str]) -> tuple[dict[str, torch.Tensor], None]:
        """Return the tokens of labels, a row each, filled up as in training."""
        tokenizer = self._processor.tokenizer
        ids = tokenizer(labels)["input_ids"]
        for label, one in zip(labels, ids, strict=True):
            if len(one) > self._limit:
                raise InputTooLong(
                    f"label {label!r:.80} has {len(one)} tokens; {self.card.name} reads labels "
                    f"of at most {self._limit}; shorten it"
                )
        read = tokenizer(labels, padding="max_length", max_length=self._limit, return_tensors="pt")
        return {name: read[name] for name in ("input_ids", "attention_mask")}, None

    def _words(
        self, labels: list[str]
    ) -> tuple[dict[str, torch.Tensor], tuple[tuple[int, int], ...]]:
        """Return the tokens of all labels in one text, and where each label stands."""
        for label in labels:
            if "." in label or "?" in label:
                raise InvalidInput(f"label {label!r}: {self.card.name} takes none with . or ?")
        tokenizer = self._processor.tokenizer
        places, text = [], ""
        for label in labels:
            places.append((len(text), len(text) + len(label)))
            text += f"{label.lower()}. "
        read = tokenizer(text.rstrip(), return_tensors="pt", return_offsets_mapping=True)
        offsets = read.pop("offset_mapping")[0].tolist()
        if len(offsets) > self._limit:
            raise InputTooLong(
                f"the labels have {len(offsets)} tokens; {self.card.name} reads {self._limit}; "
                "send fewer at once"
            )
        return dict(read), tuple(_tokens_of(place, offsets) for place in places)


def _tokens_of(place: tuple[int, int], offsets: list[list[int]]) -> tuple[int, int]:
    """Return the first and last (exclusive) token of a piece of text."""
    own = [
        index
        for index, (first, last) in enumerate(offsets)
        if last > first and first < place[1] and last > place[0]
    ]
    if not own:
        raise InvalidInput("a label has nothing that the model can read")
    return own[0], own[-1] + 1


def _in_pixels(boxes: np.ndarray, size: tuple[int, int], *, is_square: bool) -> np.ndarray:
    """Return left, top, right and bottom, within the picture, of middles and widths as shares."""
    height, width = size
    across, down = (max(size), max(size)) if is_square else (width, height)
    middle, half = boxes[:, :2].astype(np.float64), boxes[:, 2:].astype(np.float64) / 2
    corners = np.concatenate([middle - half, middle + half], axis=1) * [across, down, across, down]
    return corners.clip(0, [width, height, width, height])
