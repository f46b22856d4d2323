"""What the engine needs to bring a model up, behind two calls; the real one reads checkpoints.

Both calls block and run on a loading thread.
"""

from dataclasses import dataclass
from typing import Protocol

import torch

from sie_mcp.adapters import create
from sie_mcp.adapters.adapter import Adapter
from sie_mcp.adapters.recipe import Recipe
from sie_mcp.engine.registry import Registry
from sie_mcp.errors import OutOfMemory


@dataclass(frozen=True, slots=True)
class Plan:
    """A model that can be loaded: its size is known, its weights are not read yet."""

    name: str
    size_bytes: int
    recipe: Recipe | None = None


class Loader(Protocol):
    """Brings models up."""

    def plan(self, name: str) -> Plan:
        """Find the files, fetching them if need be, and read what the model is.

        Raises:
            ModelNotFound: no such model.
            ModelLoadFailed: files that cannot be had or served.
        """

    def load(self, plan: Plan) -> Adapter:
        """Read the weights and return an adapter that has passed its self-check."""


class CheckpointLoader:
    """Loads checkpoints that the registry finds onto one device."""

    def __init__(self, registry: Registry, device: torch.device, dtype: torch.dtype) -> None:
        self._registry = registry
        self._device = device
        self._dtype = dtype

    def plan(self, name: str) -> Plan:
        """Find or fetch the folder and read its recipe."""
        found = self._registry.locate(name)
        recipe = create.read_recipe(name, found.folder, found.entry)
        create.check_dtype(recipe, self._dtype)
        return Plan(name, create.weight_bytes(recipe, self._dtype), recipe)

    def load(self, plan: Plan) -> Adapter:
        """Fill the module on the device."""
        assert plan.recipe is not None
        try:
            adapter = create.load_adapter(plan.recipe, device=self._device, dtype=self._dtype)
        except (MemoryError, torch.OutOfMemoryError) as error:
            raise OutOfMemory(f"no memory to load {plan.name} now; call again") from error
        card = adapter.card.model_copy(
            update={"size_bytes": plan.size_bytes, "device": str(self._device)}
        )
        adapter.card = card
        return adapter
