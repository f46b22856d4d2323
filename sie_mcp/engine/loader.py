"""What the engine needs to bring a model up, behind two calls; the real one reads checkpoints.

Both calls block and run on a loading thread.
"""

import logging
from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

import torch

import sie_mcp
from sie_mcp.adapters import create
from sie_mcp.adapters.adapter import Adapter
from sie_mcp.adapters.checked import load_checked, wider_dtype
from sie_mcp.adapters.cpu_backend import CpuBackend, refusal
from sie_mcp.adapters.float8 import stored_dtype
from sie_mcp.adapters.lora import Lora
from sie_mcp.adapters.lora_files import LoraPlan
from sie_mcp.adapters.recipe import Recipe
from sie_mcp.catalogue.entries import Entry
from sie_mcp.catalogue.identity import Identity
from sie_mcp.engine.device_faults import understood
from sie_mcp.engine.hardware import choose_dtype
from sie_mcp.engine.loras import LoraName
from sie_mcp.engine.registry import Located, Registry
from sie_mcp.errors import ModelLoadFailed, SettingError

logger = logging.getLogger(__name__)


# What takes memory on a device: a model, or a low-rank adapter of one.
OnDevice = Adapter | Lora


@dataclass(frozen=True, slots=True)
class Plan:
    """A model that can be loaded: its size is known, its weights are not read yet.

    Attributes:
        loading_bytes: The most that is held while it is loaded, where that is more than its size.
        identity: What its numbers depend on.
        revision: The text of that, before its weights are read.
        dtype: What its weights become.
    """

    name: str
    size_bytes: int
    loading_bytes: int = 0
    recipe: Recipe | None = None
    lora: LoraPlan | None = None
    identity: Identity | None = None
    revision: str | None = None
    dtype: torch.dtype = torch.float32


class Loader(Protocol):
    """Brings models up."""

    def plan(self, name: str) -> Plan:
        """Find the files, fetching them if need be, and read what the model is.

        Raises:
            ModelNotFound: no such model.
            ModelLoadFailed: files that cannot be had or served.
        """

    def load(self, plan: Plan) -> OnDevice:
        """Read the weights; of a model, return an adapter that has passed its self-check."""


class CheckpointLoader:
    """Loads checkpoints that the registry finds onto one device.

    Args:
        registry: Finds files.
        device: Where models go.
        dtype: What weights become of models that the catalogue gives none of their own.
        allow_remote_code: Models, by exact name or hub id, whose own code may run.
        paths: The faster ways that models may take where they pass their check.
        backend: Who computes encoders on a CPU.
    """

    def __init__(
        self,
        registry: Registry,
        device: torch.device,
        dtype: torch.dtype,
        allow_remote_code: Collection[str] = (),
        paths: Collection[str] = (),
        backend: CpuBackend = "torch",
    ) -> None:
        self._registry = registry
        self._device = device
        self._dtype = dtype
        self._allow_remote_code = frozenset(allow_remote_code)
        self._paths = frozenset(paths)
        self._backend = backend

    def plan(self, name: str) -> Plan:
        """Find or fetch the folder and read its recipe."""
        try:
            return self._plan(name)
        except OSError as error:
            raise ModelLoadFailed(f"a file of {name} cannot be read: {error}") from error

    def _plan(self, name: str) -> Plan:
        if isinstance(name, LoraName):
            return self._plan_lora(name)
        found = self._registry.locate(name)
        recipe = self._read(name, found)
        dtype = self._dtype_of(found)
        create.check_dtype(recipe, dtype)
        logger.info("decided model=%s %s", name, recipe.decisions)
        identity = self._identity(found)
        return Plan(
            name,
            create.weight_bytes(recipe, dtype, self._backend_of(recipe, dtype)),
            self._loading_bytes(recipe, dtype),
            recipe,
            identity=identity,
            revision=identity.revision(),
            dtype=dtype,
        )

    def _loading_bytes(self, recipe: Recipe, dtype: torch.dtype) -> int:
        """Return the most that is held on the way: mostly a model in a wider dtype."""
        if self._backend_of(recipe, dtype) == "openvino":
            # All that comes of a checkpoint stands beside the buffer that it was read into; of half
            # precision that is what float32 takes, which it is held against before.
            return 2 * create.weight_bytes(recipe, dtype)
        wider = wider_dtype(self._device, dtype)
        return 0 if wider is None else create.weight_bytes(recipe, wider)

    def _backend_of(self, recipe: Recipe, dtype: torch.dtype) -> CpuBackend:
        """Return who will compute it, if it agrees."""
        is_refused = refusal(recipe, self._device, dtype) is not None
        return "torch" if is_refused else self._backend

    def _dtype_of(self, found: Located) -> torch.dtype:
        """Return what a model's weights become.

        Raises:
            ModelLoadFailed: the catalogue's word, which this device cannot honour.
        """
        entry = found.entry
        if entry is None or entry.dtype is None:
            return self._dtype
        try:
            return choose_dtype(entry.dtype, self._device)
        except SettingError as error:
            raise ModelLoadFailed(f"{entry.name}: {error}") from error

    def load(self, plan: Plan) -> OnDevice:
        """Fill the module on the device.

        Raises:
            DeviceLost: nothing can be loaded any more.
        """
        try:
            with understood(self._device, f"no memory to load {plan.name} now; call again"):
                loaded = self._load(plan)
        except OSError as error:
            raise ModelLoadFailed(f"a file of {plan.name} cannot be read: {error}") from error
        size_bytes = plan.size_bytes if loaded.weights is None else loaded.weights.size_bytes
        loaded.card = loaded.card.model_copy(
            update={
                "name": plan.name,
                "size_bytes": size_bytes,
                "device": str(self._device),
                "revision": _revision_after(plan),
            }
        )
        return loaded

    def _load(self, plan: Plan) -> OnDevice:
        if plan.lora is not None:
            return create.attach_lora(plan.lora, device=self._device, dtype=plan.dtype)
        assert plan.recipe is not None
        return load_checked(
            plan.recipe,
            device=self._device,
            dtype=plan.dtype,
            paths=self._paths,
            backend=self._backend,
        )

    def _plan_lora(self, name: LoraName) -> Plan:
        """Find or fetch an adapter, and read it for its base, whose files are there already."""
        found, base_found = self._registry.locate(name.lora), self._registry.locate(name.base)
        base, base_dtype = self._read(name.base, base_found), self._dtype_of(base_found)
        if self._backend_of(base, base_dtype) == "openvino":
            raise ModelLoadFailed(
                f"{name.base} runs in OpenVINO, which adds no low-rank adapters; "
                "set SIE_MCP_CPU_BACKEND=torch"
            )
        plan = create.plan_lora(name.lora, found.folder, base)
        identity = self._identity(found)
        dtype = stored_dtype(base_dtype)
        return Plan(
            name,
            plan.num_parameters * dtype.itemsize,
            lora=plan,
            identity=identity,
            revision=identity.revision(),
            dtype=dtype,
        )

    def _identity(self, found: Located) -> Identity:
        head = () if found.head_folder is None else (found.head_folder,)
        where = self._device.type if self._backend == "torch" else self._backend
        settings = f"{sie_mcp.__version__} {self._dtype} {where} {found.entry!r}"
        return Identity((found.folder, *head), settings)

    def _read(self, name: str, found: Located) -> Recipe:
        return create.read_recipe(
            name,
            found.folder,
            found.entry,
            may_run_code=not self._allow_remote_code.isdisjoint(_names(name, found.entry)),
            head_folder=found.head_folder,
        )


def _names(name: str, entry: Entry | None) -> set[str]:
    """Return what a model can be called in settings: its name, its hub ids."""
    if entry is None:
        return {name, name.partition("@")[0]}
    return {entry.name, *(source.repo for source in entry.sources if source.repo)}


def _revision_after(plan: Plan) -> str | None:
    """Return the revision of what was loaded; None where its files changed meanwhile."""
    if plan.identity is None or plan.identity.revision() != plan.revision:
        return None
    return plan.revision
