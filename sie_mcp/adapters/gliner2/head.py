"""On the encoder: labels judged, records counted, spans scored for the fields of each record.

Source: the span architecture of the gliner2 package. Device thread only.
"""

import itertools
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np
import torch
from torch import nn

from sie_mcp.adapters.adapter import Outputs, PackedBatch, Rows
from sie_mcp.adapters.gliner.layers import two_layers
from sie_mcp.adapters.gliner2.counting import COUNTING, relu_layers
from sie_mcp.adapters.gliner2.settings import NUM_COUNTS, Gliner2Settings
from sie_mcp.adapters.model import Config, Head

Kind = Literal["record", "entities", "relation", "labels"]


@dataclass(frozen=True, slots=True)
class Task:
    """A part of a schema: its kind, and where in the sequence it and its fields are read."""

    kind: Kind
    parent: int
    children: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """Where in a sequence its tasks are, and its words: int64 `(num_words,)`."""

    tasks: tuple[Task, ...]
    words: np.ndarray


class SpanScorer(nn.Module):
    """Scores every span of words for every query, without a vector for each span."""

    def __init__(self, size: int, max_width: int) -> None:
        super().__init__()
        self.max_width = max_width
        self.project_start = two_layers(size, size)
        self.project_end = two_layers(size, size)
        self.out_project = two_layers(2 * size, size)

    def forward(self, words: torch.Tensor, queries: torch.Tensor) -> torch.Tensor:
        """Return logits `(num_queries, num_words, max_width)`.

        The first layer over (start, end) is the sum of a part over each; the last one is folded
        into the queries. A span past the last word ends there: nobody reads its score.

        Args:
            words: `(num_words, size)` of one text.
            queries: `(num_queries, size)`.
        """
        first, last = (cast("nn.Linear", self.out_project.get_submodule(one)) for one in "03")
        size = words.shape[-1]
        starts = self.project_start(words).relu() @ first.weight[:, :size].T
        ends = self.project_end(words).relu() @ first.weight[:, size:].T
        places = torch.arange(len(words), device=words.device)[:, None]
        reach = torch.arange(self.max_width, device=words.device)
        reached = (places + reach).clamp(max=len(words) - 1)
        inner = (starts[:, None] + ends[reached] + first.bias).relu()
        logits: torch.Tensor = inner @ (queries @ last.weight).T + queries @ last.bias
        return logits.permute(2, 0, 1)


class Gliner2Head(nn.Module):
    """Everything that is no encoder."""

    def __init__(self, settings: Gliner2Settings) -> None:
        super().__init__()
        size = settings.hidden_size
        self.spans = SpanScorer(size, settings.max_width)
        self.classifier = relu_layers(size, 2 * size, 1)
        self.count_pred = relu_layers(size, 2 * size, NUM_COUNTS)
        self.count_embed = COUNTING[settings.counting](size)

    def forward(self, hidden_states: torch.Tensor, batch: PackedBatch) -> Outputs:
        """Return for each sequence, float32 but for counts:

        "labels": logits of the labels of all its questions; "counts": int32, how many records each
        of its other tasks has; "spans": logits of all queries, words and widths, flat.
        """
        layouts: tuple[Layout, ...] = batch.extras
        own = [hidden_states[first:last] for first, last in itertools.pairwise(batch.offsets)]
        counts = self._counts(own, layouts)
        spans, labels = [], []
        for states, layout, number in zip(own, layouts, counts, strict=True):
            spans.append(self._spans(states, layout, number))
            places = [
                one for task in layout.tasks if task.kind == "labels" for one in task.children
            ]
            labels.append(self.classifier(states[places])[:, 0].float())
        numbers = [torch.tensor(one, dtype=torch.int32) for one in counts]
        return {"labels": _rows(labels), "counts": _rows(numbers), "spans": _rows(spans)}

    def _counts(self, own: list[torch.Tensor], layouts: tuple[Layout, ...]) -> list[list[int]]:
        """Return the count of each task that looks for spans; waits for the device, once."""
        parents = [
            states[task.parent]
            for states, layout in zip(own, layouts, strict=True)
            for task in layout.tasks
            if task.kind != "labels"
        ]
        found: list[int] = []
        if parents:
            found = self.count_pred(torch.stack(parents)).argmax(dim=-1).tolist()
        counts = []
        for layout in layouts:
            number = sum(task.kind != "labels" for task in layout.tasks)
            counts.append(found[:number] if len(layout.words) else [0] * number)
            found = found[number:]
        return counts

    def _spans(self, states: torch.Tensor, layout: Layout, counts: list[int]) -> torch.Tensor:
        tasks = [task for task in layout.tasks if task.kind != "labels"]
        queries = [
            self._queries(states[list(task.children)], task, count)
            for task, count in zip(tasks, counts, strict=True)
            if count
        ]
        if not queries:
            return states.new_zeros(0, dtype=torch.float32)
        words = torch.from_numpy(layout.words).to(states.device, non_blocking=True)
        logits: torch.Tensor = self.spans(states[words], torch.cat(queries))
        return logits.float().flatten()

    def _queries(self, fields: torch.Tensor, task: Task, count: int) -> torch.Tensor:
        # Entities are all read by the queries of the first record.
        queries: torch.Tensor = self.count_embed(fields, 1 if task.kind == "entities" else count)
        return queries.flatten(0, 1)


def _rows(parts: list[torch.Tensor]) -> Rows:
    ends = np.cumsum([0, *(len(one) for one in parts)]).tolist()
    return Rows(torch.cat(parts), tuple(ends))


def _build(config: Config, _: int) -> nn.Module:
    return Gliner2Head(Gliner2Settings.of(config))


HEAD = Head(
    build=_build,
    renames=(
        (r"span_rep\.span_rep_layer\.(.*)", r"spans.\1"),
        (r"((?:classifier|count_pred|count_embed)\..*)", r"\1"),
    ),
)
