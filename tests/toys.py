"""Small real things for tests: an adapter whose vector tells its text, a loader with gates."""

import hashlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import nn

from sie_mcp import wire
from sie_mcp.adapters.adapter import Outputs, PackedBatch, Prepared, Result, Rows, Sequence
from sie_mcp.adapters.flat import flatten
from sie_mcp.adapters.similarity import rank
from sie_mcp.engine.loader import Plan
from sie_mcp.engine.registry import Registry
from sie_mcp.errors import InvalidInput, ModelNotFound, SieError

DIMS = 4
POISON, LETHAL, ENDLESS = MARKS = ("poison", "lethal", "endless")
# Vectors hold numbers below it; a marked text's are as many times below zero.
_STEP = 65_536
WAIT_LIMIT_S = 60.0

Fault = Callable[[PackedBatch], None]


def toy_vector(text: str) -> np.ndarray:
    """Return the vector that the toy model gives a text."""
    digest = hashlib.sha256(text.encode()).digest()
    return np.frombuffer(digest[: DIMS * 2], dtype=np.uint16).astype(np.float32)


class ToyRegistry(Registry):
    """Knows every name but "missing", as the toys' loader does."""

    def check_known(self, name: str, *, may_come: bool) -> None:
        """Refuse the one name."""
        if name == "missing":
            raise self.not_found(name)


class ToyAdapter:
    """Encodes a text as four numbers of its hash, carried through the packed batch as its ids.

    A sequence whose text is "poison" makes the forward pass raise, "lethal" ends the device thread,
    "endless" never returns. `gate` holds every forward; `fault` is asked before each and may raise.
    With `weight_bytes` it has weights that can leave the device, without which it cannot run.
    """

    def __init__(
        self, name: str, gate: threading.Event | None = None, weight_bytes: int = 0
    ) -> None:
        self.card = wire.ModelCard(
            name=name, outputs=["dense"], primitives=["encode", "score"], dims={"dense": DIMS}
        )
        self.gate = gate
        self.tokenizer = None
        self._module = nn.Linear(max(weight_bytes // 4, 1), 1, bias=False)
        self.weights = None
        if weight_bytes:
            nn.init.ones_(self._module.weight)
            self.weights = flatten(self._module, torch.device("cpu"), lambda _, one: one.dtype)
        self.batches: list[int] = []
        self.num_held = 0
        self.error: Exception | None = None
        self.fault: Fault | None = None

    def prepare(self, request: wire.Request) -> Prepared:
        """One sequence a text: its vector as ids, then a token a word."""
        assert not isinstance(request, wire.ExtractRequest)
        if isinstance(request, wire.EncodeRequest):
            for name in request.params.output_types or ():
                if name != "dense":
                    raise InvalidInput(f"{self.card.name} has no {name} output; it has: dense")
        texts = [item.text or "" for item in request.items]
        if isinstance(request, wire.ScoreRequest):
            texts = [request.query.text or "", *texts]
        return Prepared([_sequence(text) for text in texts])

    def forward(self, batch: PackedBatch) -> Outputs:
        """Read each sequence's vector back from its first ids."""
        if self.gate is not None:
            self.num_held += 1
            assert self.gate.wait(WAIT_LIMIT_S)
            self.num_held -= 1
        self.batches.append(batch.num_seqs)
        if self.error is not None:
            raise self.error
        if self.fault is not None:
            self.fault(batch)
        starts = list(batch.offsets[:-1])
        vectors = torch.stack([batch.input_ids[one : one + DIMS].float() for one in starts])
        mark = int((-vectors).div(_STEP).ceil().max())
        if mark > 0:
            _misbehave(MARKS[mark - 1])
        scale = self._module.weight.min() if self.weights is not None else 1.0
        return {"dense": Rows(vectors * scale, tuple(range(batch.num_seqs + 1)))}

    def finish(
        self, request: wire.Request, prepared: Prepared, outputs: list[Result]
    ) -> wire.Response:
        """Give vectors, or the first number as a score."""
        if isinstance(request, wire.ScoreRequest):
            return self._scores(request, outputs)
        items = []
        for item, output in zip(request.items, outputs, strict=True):
            encoded = wire.EncodedItem(id=item.id)
            if isinstance(output, SieError):
                error = wire.ItemError(code=output.code, message=str(output))
                items.append(encoded.model_copy(update={"error": error}))
            else:
                dense = wire.Dense(dims=DIMS, values=output["dense"][0])
                items.append(encoded.model_copy(update={"dense": dense}))
        usage = wire.Usage(input_tokens=prepared.num_tokens)
        return wire.EncodeResponse(model=self.card.name, items=items, usage=usage)

    def _scores(self, request: wire.ScoreRequest, outputs: list[Result]) -> wire.ScoreResponse:
        scores = [
            wire.Score(
                item_id=item.id or f"item-{index}",
                index=index,
                score=None if isinstance(output, SieError) else float(output["dense"][0, 0]),
                rank=0,
                error=wire.ItemError(code=output.code, message=str(output))
                if isinstance(output, SieError)
                else None,
            )
            for index, (item, output) in enumerate(zip(request.items, outputs[1:], strict=True))
        ]
        return wire.ScoreResponse(
            model=self.card.name, scores=rank(scores), score_type="similarity"
        )


def _misbehave(mark: str) -> None:
    if mark == ENDLESS:
        threading.Event().wait()
    raise SystemExit(1) if mark == LETHAL else ValueError("a poisoned sequence")


def _sequence(text: str) -> Sequence:
    vector = toy_vector(text).astype(np.int64)
    for place, mark in enumerate(MARKS):
        if mark in text:
            vector = -vector - 1 - place * _STEP
    padding = np.zeros(max(len(text.split()) - 1, 0), dtype=np.int64)
    return Sequence(np.concatenate([vector, padding]), outputs=frozenset({"dense"}))


@dataclass
class ToyLoader:
    """Loads toy adapters; sizes by name, `size_bytes` by default.

    Attributes:
        gate: While unset, loads wait.
        errors: Name -> errors of the next loads, first come first served.
        fault: Of every adapter; see there.
        has_weights: Models have weights that can leave, of their size.
        loading_bytes: Of those that take more while they load, by name.
    """

    sizes: dict[str, int] = field(default_factory=dict)
    gate: threading.Event = field(default_factory=threading.Event)
    forward_gate: threading.Event | None = None
    errors: dict[str, list[SieError]] = field(default_factory=dict)
    loads: list[str] = field(default_factory=list)
    adapters: dict[str, ToyAdapter] = field(default_factory=dict)
    fault: Fault | None = None
    has_weights: bool = False
    size_bytes: int = 10
    loading_bytes: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.gate.set()

    @property
    def num_held(self) -> int:
        """Batches that wait at the forward gate: taken from the queue, and not done."""
        return sum(one.num_held for one in list(self.adapters.values()))

    def plan(self, name: str) -> Plan:
        """Know every name but "missing"."""
        if name == "missing":
            raise ModelNotFound("no model 'missing'; known: every other name")
        size_bytes = self.sizes.get(name, self.size_bytes)
        return Plan(name, size_bytes, self.loading_bytes.get(name, 0))

    def load(self, plan: Plan) -> ToyAdapter:
        """Wait for the gate, then fail or load."""
        assert self.gate.wait(WAIT_LIMIT_S)
        self.loads.append(plan.name)
        if self.errors.get(plan.name):
            raise self.errors[plan.name].pop(0)
        weight_bytes = plan.size_bytes if self.has_weights else 0
        self.adapters[plan.name] = ToyAdapter(plan.name, self.forward_gate, weight_bytes)
        self.adapters[plan.name].fault = self.fault
        return self.adapters[plan.name]
