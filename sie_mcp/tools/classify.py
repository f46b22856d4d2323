"""The tool `classify`: labels of the caller's own for whole texts, with probabilities."""

from collections import Counter
from dataclasses import dataclass
from typing import Annotated

import anyio.to_thread
from mcp.types import CallToolResult
from pydantic import Field

from sie_mcp.client import EngineClient, Progress
from sie_mcp.errors import InvalidInput, SieError
from sie_mcp.tools.context import Keep, ToolCall, keep_nothing, tool_context
from sie_mcp.tools.failures import Failures, failures
from sie_mcp.tools.folders import AllowedPath
from sie_mcp.tools.inputs import Columns, Inputs, Model, Path, Texts, read_inputs
from sie_mcp.tools.labelling.judging import Judged, Judgement, Method, Question, judge
from sie_mcp.tools.labelling.labels import Labels, Overlap, check_labels, overlapping
from sie_mcp.tools.model_cards import loaded_card
from sie_mcp.tools.outputs import ColumnType, OutputPath, find_output, write_rows
from sie_mcp.tools.result import (
    LimitedResult,
    Result,
    RoundedScore,
    compact,
    num_fitting,
    or_none,
    result_tokens,
    shown_counts,
)
from sie_mcp.tools.vectors import embed_texts

MAX_COUNTS = 50
MAX_LEAST_SURE = 3
EXCERPT_CHARS = 80
# A label that is judged alone holds from here on.
HOLDS = 0.5
_COLUMNS: dict[str, ColumnType] = {
    "index": "int",
    "id": "text",
    "source": "text",
    "label": "text",
    "score": "float",
    "abstained": "bool",
    "truncated": "bool",
    "alternatives": "text",
}


@dataclass(frozen=True, slots=True)
class ClassifyOptions:
    """What to hand back; with `output` only a summary."""

    top_k: int = 3
    abstain_below: float | None = None
    output: AllowedPath | None = None
    max_tokens: int = 4_000
    keep: Keep = keep_nothing


class Guess(Result):
    """A label and its probability."""

    label: str
    score: RoundedScore


class Classified(Result):
    """One text. `score` is the best label's; `labels` are all that hold, with multi_label."""

    index: int
    id: str | None = None
    source: str | None = None
    text: str | None = None
    label: str | None = None
    labels: list[Guess] | None = None
    score: RoundedScore
    abstained: bool | None = None
    truncated: bool | None = None
    alternatives: list[Guess] | None = None


class ClassifyLabelsResult(LimitedResult):
    """Every text's label, or with a file a summary: counts and the least sure.

    `overlaps` are labels whose descriptions are hard to tell apart.
    """

    model: str
    method: Method
    count: int
    counts: dict[str, int]
    other_counts: int | None = None
    num_abstained: int | None = None
    results: list[Classified] | None = None
    output_path: str | None = None
    least_sure: list[Classified] | None = None
    overlaps: list[Overlap] | None = None
    resource: str | None = None
    blank_rows: int | None = None
    failed: Failures | None = None
    hint: str | None = None


async def classify_inputs(
    client: EngineClient,
    model: str,
    inputs: Inputs,
    question: Question,
    options: ClassifyOptions,
    progress: Progress,
) -> ClassifyLabelsResult:
    """Classify, then list the results or write them and sum them up."""
    # Without a name those texts are compared with: an embedder is what every worker has.
    card = await loaded_card(client, model, "encode", progress)
    judged = await judge(client, card, model, inputs.texts, question, progress)
    found = [_classified(text, inputs, question, options) for text in judged.texts]
    overlaps, hint = await _overlaps(client, question, judged)
    counts = Counter(label for one in found for label in _labels(one))
    shown, num_others = shown_counts(counts, MAX_COUNTS, options.max_tokens)
    result = ClassifyLabelsResult(
        model=judged.model,
        method=judged.method,
        count=len(inputs.items),
        counts=shown,
        other_counts=or_none(num_others),
        num_abstained=or_none(sum(one.abstained or False for one in found)),
        overlaps=overlaps or None,
        blank_rows=or_none(inputs.num_blank),
        failed=failures(judged.failed, inputs.indices),
        hint=hint,
    )
    if options.output is None:
        await _add_list(result, found, options)
        return result
    await anyio.to_thread.run_sync(_write, options.output, judged, inputs, found)
    result.output_path = str(options.output.path)
    result.least_sure = _least_sure(found, judged, inputs.texts)
    return result


def _classified(
    text: Judgement, inputs: Inputs, question: Question, options: ClassifyOptions
) -> Classified:
    guesses = [Guess(label=label, score=score) for label, score in text.scores]
    best = guesses[0]
    abstains = options.abstain_below is not None and best.score < options.abstain_below
    holding = [one for one in guesses if one.score >= HOLDS] if question.multi_label else [best]
    holding = [] if abstains else holding
    others = [one for one in guesses[: options.top_k] if one not in holding]
    return Classified(
        index=inputs.indices[text.place],
        id=inputs.items[text.place].id,
        source=inputs.source(text.place),
        label=holding[0].label if holding and not question.multi_label else None,
        labels=holding if question.multi_label else None,
        score=best.score,
        abstained=abstains or None,
        truncated=text.is_truncated or None,
        alternatives=others or None,
    )


def _labels(one: Classified) -> list[str]:
    if one.labels is not None:
        return [guess.label for guess in one.labels]
    return [] if one.label is None else [one.label]


async def _overlaps(
    client: EngineClient, question: Question, judged: Judged
) -> tuple[list[Overlap], str | None]:
    """Return labels that are hard to tell apart, or why they were not compared."""
    if len(question.labels) < 2:
        return [], None
    vectors = judged.label_vectors
    if vectors is None:
        try:
            vectors = await embed_texts(client, "auto", [label.text for label in question.labels])
        except SieError as error:
            return [], f"labels were not compared with each other: {error}"
    return overlapping(question.labels, vectors), None


async def _add_list(
    result: ClassifyLabelsResult, found: list[Classified], options: ClassifyOptions
) -> None:
    """List what fits; alternatives give way before texts do."""
    # The counts, and labels that are alike, are read too.
    max_tokens = options.max_tokens - result_tokens(result)
    num_shown = num_fitting(found, max_tokens)
    if num_shown < len(found):
        result.resource = await options.keep(found)
        found = [one.model_copy(update={"alternatives": None}) for one in found]
        num_shown = num_fitting(found, max_tokens)
        result.hint = "too many for alternatives; write everything to a file with output_path"
    result.results = found[:num_shown]
    result.omitted = or_none(len(found) - num_shown)


def _least_sure(found: list[Classified], judged: Judged, texts: list[str]) -> list[Classified]:
    order = sorted(range(len(found)), key=lambda place: (found[place].score, place))
    return [
        found[place].model_copy(update={"text": texts[judged.texts[place].place][:EXCERPT_CHARS]})
        for place in order[:MAX_LEAST_SURE]
    ]


def _write(path: AllowedPath, judged: Judged, inputs: Inputs, found: list[Classified]) -> None:
    """Write a row for each text; several labels and alternatives share a cell."""
    write_rows(
        path,
        _COLUMNS,
        (
            {
                **one.model_dump(exclude_none=True),
                "source": inputs.sources[text.place] if inputs.sources else None,
                "label": " | ".join(_labels(one)) or None,
                "alternatives": " | ".join(
                    f"{guess.label} {guess.score}" for guess in one.alternatives or []
                )
                or None,
            }
            for text, one in zip(judged.texts, found, strict=True)
        ),
    )


async def classify(
    ctx: ToolCall,
    texts: Annotated[Texts, Field(description="Texts, or {id, text}.")] = [],  # noqa: B006
    path: Path = "",
    columns: Columns = [],  # noqa: B006
    labels: Labels = {},  # noqa: B006
    multi_label: Annotated[bool, Field(description="Several or none may hold.")] = False,
    top_k: Annotated[int, Field(ge=1, le=20, description="Guesses a text.")] = 3,
    abstain_below: Annotated[
        float | None, Field(ge=0, le=1, description="No label under this score.")
    ] = None,
    template: Annotated[str, Field(description="Sentence with {} for a label.")] = "",
    output_path: OutputPath = "",
    model: Model = "auto",
) -> Annotated[CallToolResult, ClassifyLabelsResult]:
    """Give texts labels of your own, with probabilities.

    Use it for intents, topics, moods or routing. Labels are compared with texts by meaning:
    describe them. A GLiClass or NLI model also takes multi_label and template.

    Returns for each text {index, label, score, alternatives}; overlaps: labels too alike.
    """
    context = tool_context(ctx)
    if template and template.count("{}") != 1:
        raise InvalidInput(f"template {template!r} must hold {{}} once, for the label")
    question = Question(check_labels(labels), multi_label, template)
    output = find_output(context, output_path)
    inputs = await read_inputs(context, texts, path, columns)
    options = ClassifyOptions(top_k, abstain_below, output, context.list_tokens, context.keep)
    result = await classify_inputs(
        context.client, model, inputs, question, options, context.progress
    )
    return compact(result, context.config.max_result_tokens)
