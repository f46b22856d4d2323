"""Tiny random GLiNER2 checkpoints, and what the gliner2 package itself finds."""

from pathlib import Path
from typing import Any

import torch
from gliner2 import GLiNER2
from gliner2.configuration import ExtractorConfig
from gliner2.processor import SchemaTransformer
from tokenizers import AddedToken
from transformers import PreTrainedTokenizerFast
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from sie_mcp import wire
from sie_mcp.wire_structure import Structure
from tests.parity.checkpoints import make_tokenizer, spread
from tests.parity.pruners import BY_NAME
from tests.parity.row import VOCAB_SIZE
from tests.parity.run import run

# Encoder and counting layer.
VARIANTS = (
    "deberta-v2 count_lstm_v2",
    "deberta-v2 count_lstm",
    "modernbert count_lstm_moe",
    "bert count_lstm_v2",
)
TEXTS = [
    "Alpha met Beta beside the river.",
    "w3 w4 coffee!",
    "morning stone gamma x delta w9 w27 w11 w12 w13 w14 w15 epsilon in the morning.",
    "Mail w5@w6.com, see https://w7.w8/x or @alpha.",
]
THRESHOLD = 0.5
STRUCTURE: dict[str, Any] = {
    "entities": {"river": "", "stone": "what is w5"},
    "relations": {"delta": "", "gamma x": "w1 of w2"},
    "classifications": [
        {"name": "coffee", "labels": {"w1": "", "w2": "", "w3": ""}},
        {"name": "stone", "labels": {"w4": "a w5", "w6": ""}, "multi_label": True},
    ],
    "records": [
        {
            "name": "morning",
            "fields": [
                {"name": "alpha"},
                {"name": "beta", "is_list": True, "description": "w8 w9"},
                {"name": "gamma", "choices": ["w20", "w21 w22", "w23"]},
                {"name": "delta", "choices": ["w24", "w25"], "is_list": True},
            ],
        },
        {"name": "x", "fields": [{"name": "epsilon"}]},
    ],
}


def save(folder: Path, variant: str, seed: int = 3, **changes: Any) -> Any:
    """Save a variant as the library does; return its model."""
    name, _, counting = variant.partition(" ")
    row = BY_NAME[name]
    torch.manual_seed(seed)
    encoder = CONFIG_MAPPING[row.name](
        **{**row.config, "pad_token_id": 0, "max_position_embeddings": 512}
    )
    encoder._attn_implementation = "eager"
    tokenizer = make_tokenizer("bert")
    markers = SchemaTransformer.SPECIAL_TOKENS
    tokenizer.add_special_tokens([AddedToken(one, normalized=False) for one in markers])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]")
    config = ExtractorConfig(
        "encoder", counting_layer=counting, attn_implementation="eager", max_width=5, **changes
    )
    model = GLiNER2(config, encoder_config=encoder, tokenizer=fast).eval()
    spread(model)
    with torch.no_grad():
        # Counts and scores that differ, and are neither all nor nothing.
        for one in (model.count_pred, model.classifier, model.span_rep):
            for parameter in one.parameters():
                parameter.mul_(3.0)
    model.save_pretrained(str(folder))
    assert len(fast) == VOCAB_SIZE + len(markers)
    return model


def request(texts: list[str], structure: dict[str, Any] | None = None) -> wire.ExtractRequest:
    """Ask for a structure."""
    options = wire.ExtractOptions(
        structure=Structure.model_validate(structure or STRUCTURE), threshold=THRESHOLD
    )
    items = [wire.Item(text=text) for text in texts]
    return wire.ExtractRequest(items=items, params=wire.ExtractParams(options=options))


def expected(model: Any, text: str) -> dict[str, Any]:
    """Return what the library finds in one text, in `found`'s form."""
    schema = model.create_schema()
    for record in STRUCTURE["records"]:
        builder = schema.structure(record["name"])
        for field in record["fields"]:
            kind = "list" if field.get("is_list") else "str"
            more = {key: field[key] for key in ("choices", "description") if key in field}
            builder = builder.field(field["name"], dtype=kind, **more)
    schema.entities({name: told or {} for name, told in STRUCTURE["entities"].items()})
    schema.relations({name: told or {} for name, told in STRUCTURE["relations"].items()})
    for one in STRUCTURE["classifications"]:
        told = {name: text for name, text in one["labels"].items() if text}
        schema.classification(
            one["name"],
            list(one["labels"]),
            multi_label=True,
            cls_threshold=0.0,
            class_act="sigmoid" if one.get("multi_label") else "softmax",
            label_descriptions=told,
        )
    (result,) = model.batch_extract(
        [text], schema, threshold=THRESHOLD, include_confidence=True, include_spans=True
    )
    return _as_found(result)


def _as_found(result: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for label, spans in (result.get("entities") or {}).items():
        for one in spans or []:
            found["entity", label, one["start"], one["end"]] = one["confidence"]
    for name, pairs in (result.get("relation_extraction") or {}).items():
        for pair in pairs:
            ends = [pair[end][place] for end in ("head", "tail") for place in ("start", "end")]
            score = min(pair["head"]["confidence"], pair["tail"]["confidence"])
            # The library calls a described relation by name and description.
            key = ("pair", name.partition(":")[0], *ends)
            found[key] = max(score, found.get(key, 0.0))
    for one in STRUCTURE["classifications"]:
        for label in result[one["name"]]:
            found["label", one["name"], label["label"]] = label["confidence"]
    for record in STRUCTURE["records"]:
        for own in result.get(record["name"]) or []:
            key, scores = _record(record["name"], own)
            found.setdefault(key, scores)
    return found


def _record(name: str, own: dict[str, Any]) -> tuple[Any, list[float]]:
    values: list[Any] = []
    scores: list[float] = []
    for field, value in own.items():
        for one in value if isinstance(value, list) else [value] if value else []:
            values.append((field, one["text"], one.get("start"), one.get("end")))
            scores.append(one["confidence"])
    order = sorted(range(len(values)), key=lambda place: str(values[place]))
    return ("record", name, *(values[place] for place in order)), [scores[one] for one in order]


def found(adapter: Any, texts: list[str]) -> list[dict[str, Any]]:
    """Return findings of an adapter by what and where they are, with their scores."""
    response, _ = run(adapter, request(texts))
    return [_of_item(item) for item in response.items]


def _of_item(item: wire.ExtractedItem) -> dict[str, Any]:
    result: dict[str, Any] = {
        ("entity", one.label, one.start, one.end): one.score for one in item.entities
    }
    for pair in item.relations:
        ends = (pair.head_start, pair.head_end, pair.tail_start, pair.tail_end)
        result["pair", pair.relation, *ends] = pair.score
    for label in item.classifications:
        result["label", label.task, label.label] = label.score
    for record in item.records:
        dumped = {
            name: [
                {"text": one.text, "start": one.start, "end": one.end, "confidence": one.score}
                for one in values
            ]
            for name, values in record.fields.items()
        }
        key, scores = _record(record.name, dumped)
        result[key] = scores
    return result


def furthest(adapter: Any, model: Any) -> float:
    """Return the largest difference of any score; infinite where the findings differ."""
    worst = 0.0
    for own, text in zip(found(adapter, TEXTS), TEXTS, strict=True):
        wanted = expected(model, text)
        if own.keys() != wanted.keys():
            return float("inf")
        for key, score in wanted.items():
            ours = own[key]
            pairs = zip(ours, score, strict=True) if isinstance(score, list) else [(ours, score)]
            worst = max([worst, *(abs(a - b) for a, b in pairs)])
    return worst
