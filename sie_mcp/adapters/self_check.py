"""The check that every load ends with: finite numbers, and the same alone as beside a neighbour."""

import numpy as np
import torch

from sie_mcp import wire
from sie_mcp.adapters.adapter import Adapter, Prepared, SequenceOutput
from sie_mcp.adapters.packing import pack, unpack
from sie_mcp.errors import ModelLoadFailed

_SHORT = "The quick brown fox."
_LONG = "A neighbour that is a good deal longer than the sentence under test, to say the least."
# Half precision sums in another order when the batch changes.
_TOLERANCE = {True: 1e-3, False: 5e-2}


def check(adapter: Adapter, device: torch.device) -> None:
    """Run one sentence alone and beside a longer one.

    Raises:
        ModelLoadFailed: not finite, or not the same.
    """
    prepared = adapter.prepare(_request(adapter.card))
    with torch.inference_mode():
        alone = _run(adapter, prepared, device, slice(0, 1))[0]
        beside = _run(adapter, prepared, device, slice(None))[0]
    for name, values in alone.items():
        if values.dtype.kind != "f":
            continue
        if not np.isfinite(values).all():
            raise ModelLoadFailed(f"{adapter.card.name}: its {name} output is not finite")
        if values.shape != beside[name].shape:
            continue
        difference = float(np.abs(values - beside[name]).max(initial=0.0))
        scale = max(float(np.abs(values).max(initial=0.0)), 1.0)
        if difference > _TOLERANCE[device.type == "cpu"] * scale:
            raise ModelLoadFailed(
                f"{adapter.card.name}: {name} differs by {difference:.2g} beside another text"
            )


def _run(
    adapter: Adapter, prepared: Prepared, device: torch.device, part: slice
) -> list[SequenceOutput]:
    sequences = prepared.sequences[part]
    batch = pack(sequences, device)
    return unpack(adapter.forward(batch), len(sequences))


def _request(card: wire.ModelCard) -> wire.Request:
    items = [wire.Item(text=_SHORT), wire.Item(text=_LONG)]
    if "encode" in card.primitives:
        outputs = [one for one in ("dense", "sparse", "multivector") if one in card.outputs]
        return wire.EncodeRequest.model_validate(
            {"items": items, "params": {"output_types": outputs}}
        )
    if "score" in card.primitives:
        return wire.ScoreRequest(query=wire.Item(text="fox"), items=items)
    return wire.ExtractRequest(items=items)
