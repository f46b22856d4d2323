"""Tiny random pruners, and what they compute by the plain formula over transformers' own model."""

import json
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import nn

from sie_mcp import wire
from sie_mcp.catalogue.entries import Entry, Source
from tests.parity.checkpoints import save, write_json
from tests.parity.run import load, run
from tests.parity.table import ROWS
from tests.tiny import change_json

BY_NAME = {row.name: row for row in ROWS}
WIDTH = 24
QUERY = "alpha river"
DOCUMENTS = [
    "morning coffee",
    "x",
    "stone river morning gamma delta",
    " ".join(f"w{n}" for n in range(64)),
    " ".join(f"w{n % 90}" for n in range(150)),
]


def make_head(seed: int = 3) -> nn.Sequential:
    """Return the two layers of stablebridge's head, in the places they have there."""
    torch.manual_seed(seed)
    head = nn.Sequential(nn.Linear(32, WIDTH), nn.GELU(), nn.Dropout(0.2), nn.Linear(WIDTH, 1))
    with torch.no_grad():
        for one in head.parameters():
            one.copy_(torch.randn(one.shape) * 0.5)
    return head.eval()


def state_of(head: nn.Module, prefix: str = "classifier.") -> dict[str, torch.Tensor]:
    """Return the head's tensors by the names of a checkpoint."""
    return {f"{prefix}{name}": one for name, one in head.state_dict().items()}


def save_pruner(folder: Path, row: str = "xlm-roberta") -> tuple[nn.Module, nn.Module]:
    """Write a cross-encoder's folder with a pruning head in it; return both parts."""
    reference = save(BY_NAME[row], "cross_encoder", folder)
    head = make_head()
    torch.save(state_of(head), folder / "pruning_head.pt")
    return reference, head


def entry(folder: Path, **fields) -> Entry:
    """Return what the catalogue would say of a head alone in a folder."""
    sources = (Source(kind="path", path=folder, file="best.pt"),)
    return Entry(name="pruner", tasks=("cross_encoder", "pruning"), sources=sources, **fields)


def request(documents=DOCUMENTS, query=QUERY, labels=None, **options) -> wire.ExtractRequest:
    """Build a request to prune documents."""
    params = {"instruction": query, "labels": labels, "options": options}
    items = [{"text": text} for text in documents]
    return wire.ExtractRequest.model_validate({"items": items, "params": params})


@torch.no_grad()
def formula(reference, keep, folder: Path, documents=DOCUMENTS, query=QUERY, read_by=None):
    """Return each document's relevance logit and keep probabilities, on one padded batch.

    Args:
        keep: From hidden states `(..., hidden_size)` to probabilities `(...)`.
        read_by: The module whose input the head reads; None: it reads the last hidden states.
    """
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_padding(pad_id=reference.config.pad_token_id)
    pairs = tokenizer.encode_batch([(query, one) for one in documents])
    inputs = {
        "input_ids": torch.tensor([one.ids for one in pairs]),
        "attention_mask": torch.tensor([one.attention_mask for one in pairs]),
    }
    if getattr(reference.config, "type_vocab_size", 0) > 1:
        inputs["token_type_ids"] = torch.tensor([one.type_ids for one in pairs])
    states = []
    if read_by is not None:
        read_by.register_forward_pre_hook(lambda _, given: states.append(given[0]))
    output = reference(**inputs, output_hidden_states=True)
    probabilities = keep((states or output.hidden_states)[-1])
    own = [torch.tensor([kind == 1 for kind in one.sequence_ids]) for one in pairs]
    return [
        (float(output.logits[place, 0]), probabilities[place][mask].numpy())
        for place, mask in enumerate(own)
    ]


def mlp(head):
    """Return stablebridge's formula: one logit a token, as a probability."""
    return lambda states: torch.sigmoid(head(states).squeeze(-1))


def linear(head):
    """Return Provence's formula: two logits a token, the second one's share."""
    return lambda states: torch.softmax(head(states), dim=-1)[..., 1]


def save_open_provence(folder: Path, row: str, **changes) -> tuple[nn.Module, nn.Module]:
    """Write a cross-encoder as OpenProvence saves it; return both parts.

    Args:
        changes: Keys of its own config; those of the head under "pruning_config".
    """
    reference = save(BY_NAME[row], "cross_encoder", folder)
    base = json.loads((folder / "config.json").read_text())
    head = _linear_head()
    _write_tensors(folder, "ranking_model.", "pruning_head.classifier.", head)
    pruning = {"hidden_size": 32, "num_labels": 2, "classifier_dropout": 0.1}
    config = {
        "model_type": "open_provence",
        "architectures": ["OpenProvenceForSequenceClassification"],
        "auto_map": {"AutoModel": "modeling_open_provence_standalone.OpenProvenceModel"},
        "mode": "reranking_pruning",
        "base_model_config": base,
        "num_labels": 1,
        "num_pruning_labels": 2,
        **changes,
        "pruning_config": pruning | changes.get("pruning_config", {}),
    }
    write_json(folder / "config.json", config)
    return reference, head


def save_provence(folder: Path, task: str = "cross_encoder") -> tuple[nn.Module, nn.Module]:
    """Write a DeBERTa as the class that Provence's authors published; return both parts."""
    reference = save(BY_NAME["deberta-v2"], task, folder)
    head = _linear_head()
    _write_tensors(folder, "", "token_classifier.", head)
    change_json(folder, "config.json", architectures=["DebertaV2ForCompressionAndRanking"])
    return reference, head


def _linear_head() -> nn.Linear:
    torch.manual_seed(5)
    return nn.Linear(32, 2).requires_grad_(False)


def _write_tensors(folder: Path, prefix: str, stored_as: str, head: nn.Linear) -> None:
    weights = folder / "model.safetensors"
    tensors = {f"{prefix}{name}": one for name, one in load_file(weights).items()}
    save_file(tensors | state_of(head, stored_as), weights, metadata={"format": "pt"})


def found(adapter, documents=DOCUMENTS, query=QUERY):
    """Return the same of an adapter, from the raw outputs of one packed batch."""
    asked = request(documents, query)
    readings = adapter.prepare(asked).notes
    _, outputs = run(adapter, asked)
    results = []
    for reading in readings:
        (output,) = outputs[reading.places]
        length = len(reading.tokens.ids)
        keep = output["keep"][reading.num_before : reading.num_before + length]
        results.append((float(output["logits"][0, 0]), keep))
    return results


def difference(one, other) -> float:
    """Return the largest difference of any number of two such lists."""
    return max(
        max(abs(a - b), float(np.abs(p - q).max()))
        for (a, p), (b, q) in zip(one, other, strict=True)
    )


def furthest(folder: Path, dialect: str, row: str) -> float:
    """Save a pruner of a dialect of `DIALECTS` on a row; return how far it is from the formula."""
    save_it, keep = DIALECTS[dialect]
    reference, head = save_it(folder, row)
    is_before = dialect == "open-provence" and row == "modernbert"
    read_by = reference.model.final_norm if is_before else None
    expected = formula(reference, keep(head), folder, read_by=read_by)
    return difference(found(load(folder)), expected)


DIALECTS = {
    "stablebridge": (save_pruner, mlp),
    "open-provence": (save_open_provence, linear),
    "provence": (lambda folder, _: save_provence(folder), linear),
}
# Which of them stand on which row of the table.
COMPARED = (
    ("stablebridge", "xlm-roberta"),
    ("open-provence", "xlm-roberta"),
    ("open-provence", "modernbert"),
    ("provence", "deberta-v2"),
)
