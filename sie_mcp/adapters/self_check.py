"""The check that every load ends with: finite numbers that fit the card and ignore neighbours."""

import struct
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch

from sie_mcp import wire
from sie_mcp.adapters.adapter import Adapter, Sequence, SequenceOutput
from sie_mcp.adapters.agreement import Tolerance
from sie_mcp.adapters.packing import pack, unpack
from sie_mcp.adapters.results import non_finite
from sie_mcp.errors import ModelLoadFailed
from sie_mcp.wire_images import Image
from sie_mcp.wire_structure import Structure

_SHORT = "The quick brown fox."
_LONG = "A neighbour that is a good deal longer than the sentence under test, to say the least."
_LABELS = ["animal", "colour of its fur"]
_LEAST = 1e-6
# Half precision sums in another order when the batch changes.
_TOLERANCE = {True: 1e-3, False: 5e-2}


def check(adapter: Adapter, device: torch.device, tolerance: Tolerance | None = None) -> None:
    """Run one sentence alone and beside a longer one; on CUDA also without packed kernels.

    Once for the model, once for each of its own low-rank adapters, once for relations, and once
    with images instead.

    Args:
        adapter: The model.
        device: Where it is.
        tolerance: How far numbers may be apart; None: as the device rounds.

    Raises:
        ModelLoadFailed: it cannot run, or its numbers are not finite, not as wide as the card
            says, or not the same.
    """
    difference = _TOLERANCE[device.type == "cpu"] if tolerance is None else tolerance.difference
    for what, request in requests(adapter.card):
        _check_with(request, what, adapter, device, difference)


def requests(card: wire.ModelCard) -> Iterator[tuple[str, wire.Request]]:
    """Yield what a model is checked with: an adapter's name, or "images", or "" before each."""
    if card.outputs == ["relations"]:
        yield "", _link_request()
        return
    if "text" in card.inputs:
        for lora in ("", *card.loras):
            yield lora, _request(card, lora)
    if "relations" in card.outputs:
        yield "relations", _relation_request()
    if "image" in card.inputs:
        yield "images", _image_request(card)


def answers(adapter: Adapter, device: torch.device) -> list[SequenceOutput]:
    """Return what the model gives for the sentences that it is checked with, one batch of them.

    Raises:
        ModelLoadFailed: it cannot run.
    """
    reads_text = "text" in adapter.card.inputs
    request = _request(adapter.card, "") if reads_text else _image_request(adapter.card)
    if adapter.card.outputs == ["relations"]:
        request = _link_request()
    sequences = adapter.prepare(request).sequences
    with torch.inference_mode():
        return _outputs(adapter, sequences, device, allows_kernels=True)


def _check_with(
    request: wire.Request, what: str, adapter: Adapter, device: torch.device, tolerance: float
) -> None:
    prepared = adapter.prepare(request)
    if not prepared.sequences:
        raise ModelLoadFailed(f"{adapter.card.name}: nothing runs of {what or 'a text'}")
    kind = "image" if what == "images" else "text"
    short, both = prepared.sequences[:1], prepared.sequences
    with torch.inference_mode():
        alone = _run(adapter, short, device)
        others = {f"beside another {kind}": _run(adapter, both, device)}
        if device.type == "cuda" and adapter.card.packed:
            others["on padded blocks"] = _run(adapter, short, device, allows_kernels=False)
    for name, values in alone.items():
        if values.dtype.kind != "f":
            continue
        _check_values(adapter.card, name, values)
        for where, other in others.items():
            source = f"{adapter.card.name}{what and ' + '}{what}: {name}"
            _compare(source, values, other[name], where, tolerance)


def _check_values(card: wire.ModelCard, name: str, values: np.ndarray) -> None:
    error = non_finite({name: values})
    if error is not None:
        raise ModelLoadFailed(f"{card.name}: {error}") from error
    width = card.dims.get(name)
    if width is not None and values.shape[-1] != width:
        raise ModelLoadFailed(
            f"{card.name}: its {name} output is {values.shape[-1]} wide instead of {width}"
        )


def _compare(what: str, alone: np.ndarray, other: np.ndarray, where: str, tolerance: float) -> None:
    if alone.shape != other.shape:
        return  # A weight of a sparse vector that is as good as zero.
    difference = float(np.abs(alone - other).max(initial=0.0))
    scale = max(float(np.abs(alone).max(initial=0.0)), 1.0)
    # So put, what is no number does not pass.
    if not difference <= tolerance * scale:
        raise ModelLoadFailed(f"{what} differs by {difference:.2g} {where}")


def _run(
    adapter: Adapter,
    sequences: list[Sequence],
    device: torch.device,
    *,
    allows_kernels: bool = True,
) -> SequenceOutput:
    """Return what the first sequence gives."""
    return _outputs(adapter, sequences, device, allows_kernels=allows_kernels)[0]


def _outputs(
    adapter: Adapter, sequences: list[Sequence], device: torch.device, *, allows_kernels: bool
) -> list[SequenceOutput]:
    batch = replace(pack(sequences, device), allows_kernels=allows_kernels)
    try:
        return unpack(adapter.forward(batch), len(sequences))
    except torch.OutOfMemoryError:
        raise  # The load may be tried again.
    except (RuntimeError, IndexError) as error:
        raise ModelLoadFailed(f"{adapter.card.name} cannot run: {error}") from error


def _request(card: wire.ModelCard, lora: str) -> wire.Request:
    items = [wire.Item(text=_SHORT), wire.Item(text=_LONG)]
    if "encode" in card.primitives:
        outputs = [one for one in ("dense", "sparse", "multivector") if one in card.outputs]
        return wire.EncodeRequest.model_validate(
            {"items": items, "params": {"output_types": outputs, "options": {"lora": lora}}}
        )
    if "extract" in card.primitives:
        # A pruner reads texts beside a query; others find what they are told.
        takes_any = card.labels is None
        params = wire.ExtractParams(
            instruction=None if takes_any else "fox", labels=_LABELS if takes_any else None
        )
        return wire.ExtractRequest(items=items, params=params)
    return wire.ScoreRequest(query=wire.Item(text="fox"), items=items)


def _relation_request() -> wire.Request:
    """Ask how two things are linked, so low that some always are."""
    structure = Structure(entities=dict.fromkeys(_LABELS, ""), relations={"is of": ""})
    options = wire.ExtractOptions(structure=structure, threshold=_LEAST)
    items = [wire.Item(text=_SHORT), wire.Item(text=_LONG)]
    return wire.ExtractRequest(items=items, params=wire.ExtractParams(options=options))


def _link_request() -> wire.Request:
    """Ask how two given words are linked."""
    spans = [wire.Span(start=0, end=3), wire.Span(start=4, end=9)]
    items = [wire.Item(text=text, spans=spans) for text in (_SHORT, _LONG)]
    options = wire.ExtractOptions(structure=Structure(relations={"is of": ""}))
    return wire.ExtractRequest(items=items, params=wire.ExtractParams(options=options))


def _image_request(card: wire.ModelCard) -> wire.Request:
    """Ask what two small pictures of different shapes are."""
    items = [wire.Item(images=[Image(data=_picture(*one))]) for one in ((24, 16), (16, 40))]
    if "encode" not in card.primitives:
        labels = _LABELS if "objects" in card.outputs else None
        options = wire.ExtractOptions(max_tokens=None if labels else 4)
        params = wire.ExtractParams(labels=labels, options=options)
        return wire.ExtractRequest(items=items, params=params)
    name: wire.OutputType = "dense" if "dense" in card.outputs else "multivector"
    return wire.EncodeRequest(items=items, params=wire.EncodeParams(output_types=[name]))


def _picture(width: int, height: int) -> bytes:
    """Return a picture of many colours as a BMP file; the width is a multiple of four."""
    colours = (np.arange(height * width * 3) * 37 % 251).astype(np.uint8).tobytes()
    first, depth = 54, 24
    sizes = (first + len(colours), 0, 0, first, 40, width, height, 1, depth, 0, len(colours))
    return struct.pack("<2sIHHIIiiHHIIiiII", b"BM", *sizes, 0, 0, 0, 0) + colours
