"""The check that every load ends with: finite numbers that fit the card and ignore neighbours."""

import numpy as np
import torch

from sie_mcp import wire
from sie_mcp.adapters.adapter import Adapter, Prepared, SequenceOutput
from sie_mcp.adapters.packing import pack, unpack
from sie_mcp.adapters.results import non_finite
from sie_mcp.errors import ModelLoadFailed

_SHORT = "The quick brown fox."
_LONG = "A neighbour that is a good deal longer than the sentence under test, to say the least."
# Half precision sums in another order when the batch changes.
_TOLERANCE = {True: 1e-3, False: 5e-2}


def check(adapter: Adapter, device: torch.device) -> None:
    """Run one sentence alone and beside a longer one.

    Raises:
        ModelLoadFailed: it cannot run, or its numbers are not finite, not as wide as the card
            says, or not the same.
    """
    prepared = adapter.prepare(_request(adapter.card))
    with torch.inference_mode():
        alone = _run(adapter, prepared, device, slice(0, 1))[0]
        beside = _run(adapter, prepared, device, slice(None))[0]
    for name, values in alone.items():
        if values.dtype.kind == "f":
            _check_values(adapter.card, name, values, beside[name], device)


def _check_values(
    card: wire.ModelCard, name: str, alone: np.ndarray, beside: np.ndarray, device: torch.device
) -> None:
    error = non_finite({name: alone})
    if error is not None:
        raise ModelLoadFailed(f"{card.name}: {error}") from error
    width = card.dims.get(name)
    if width is not None and alone.shape[-1] != width:
        raise ModelLoadFailed(
            f"{card.name}: its {name} output is {alone.shape[-1]} wide instead of {width}"
        )
    if alone.shape != beside.shape:
        return  # A weight of a sparse vector that is as good as zero.
    difference = float(np.abs(alone - beside).max(initial=0.0))
    scale = max(float(np.abs(alone).max(initial=0.0)), 1.0)
    if difference > _TOLERANCE[device.type == "cpu"] * scale:
        raise ModelLoadFailed(
            f"{card.name}: {name} differs by {difference:.2g} beside another text"
        )


def _run(
    adapter: Adapter, prepared: Prepared, device: torch.device, part: slice
) -> list[SequenceOutput]:
    sequences = prepared.sequences[part]
    batch = pack(sequences, device)
    try:
        return unpack(adapter.forward(batch), len(sequences))
    except torch.OutOfMemoryError:
        raise  # The load may be tried again.
    except (RuntimeError, IndexError) as error:
        raise ModelLoadFailed(f"{adapter.card.name} cannot run: {error}") from error


def _request(card: wire.ModelCard) -> wire.Request:
    items = [wire.Item(text=_SHORT), wire.Item(text=_LONG)]
    if "encode" in card.primitives:
        outputs = [one for one in ("dense", "sparse", "multivector") if one in card.outputs]
        return wire.EncodeRequest.model_validate(
            {"items": items, "params": {"output_types": outputs}}
        )
    if "extract" in card.primitives:
        return wire.ExtractRequest(items=items)
    return wire.ScoreRequest(query=wire.Item(text="fox"), items=items)
