"""Tiny random pruners, and what they compute by the plain formula over transformers' own model."""

from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import nn

from sie_mcp import wire
from sie_mcp.catalogue.entries import Entry, Source
from tests.parity.checkpoints import save
from tests.parity.run import load, run
from tests.parity.table import ROWS

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
def formula(reference, keep, folder: Path, documents=DOCUMENTS, query=QUERY):
    """Return each document's relevance logit and keep probabilities, on one padded batch.

    Args:
        keep: From hidden states `(..., hidden_size)` to probabilities `(...)`.
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
    output = reference(**inputs, output_hidden_states=True)
    probabilities = keep(output.hidden_states[-1])
    own = [torch.tensor([kind == 1 for kind in one.sequence_ids]) for one in pairs]
    return [
        (float(output.logits[place, 0]), probabilities[place][mask].numpy())
        for place, mask in enumerate(own)
    ]


def mlp(head):
    """Return stablebridge's formula: one logit a token, as a probability."""
    return lambda states: torch.sigmoid(head(states).squeeze(-1))


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


def furthest(folder: Path) -> float:
    """Save a pruner; return how far it is from the formula."""
    reference, head = save_pruner(folder)
    return difference(found(load(folder)), formula(reference, mlp(head), folder))
