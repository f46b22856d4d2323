"""Importing torch without the parts of it that serving does not use; they come when asked for.

A quarter of the time that `import torch` takes, and a tenth of its memory, goes into kernels for
tensors without numbers, written in Python for compilers, and into export, distributions, masks and
readers of data sets (evals/LOG.md 24). Knows the import system alone: no tensor, no model.
"""

import importlib
import logging
import sys
import threading
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import Any

logger = logging.getLogger(__name__)

# In the order in which torch imports them. Without what quantises as well, torch 2.15 cannot be
# imported: it counts on it to have come first.
PARTS = (
    "torch.utils.data",
    "torch.distributions",
    "torch.masked",
    "torch.export",
    "torch.distributed._meta_registrations",
    "torch._meta_registrations",
)
# Whose import was followed: any other version is imported whole.
CHECKED = ("2.11", "2.12", "2.13", "2.14", "2.15")
DEVICES = Path("/dev")
# What may build models of tensors without numbers, or compile them.
_OVER_TORCH = ("transformers", "functorch")
# What `with torch.device(...)` imports, which every load does: it is of the part that is used.
_USED = "torch.utils._device"
# Of a module's own names those that an import of something in it asks for; all others anybody does.
_ASKED = ("__path__", "__all__")


def import_torch() -> None:
    """Import torch for serving; call it before anything else does. Else it changes nothing.

    Raises:
        ModuleNotFoundError: it is not installed.
    """
    if "torch" in sys.modules:
        return
    installed = _installed()
    if may_have_accelerator():
        importlib.import_module("torch")
        return
    if not installed.startswith(tuple(f"{one}." for one in CHECKED)):
        logger.info("torch is imported whole version=%s checked=%s", installed, CHECKED)
        importlib.import_module("torch")
        return
    parts = PutOff(PARTS)
    sys.meta_path.insert(0, parts)
    importlib.import_module("torch")
    importlib.import_module(_USED)
    parts.guard("torch", _OVER_TORCH)


def may_have_accelerator() -> bool:
    """Whether torch may find a device here: then it is imported whole, as kernels for one want."""
    has_one = any(DEVICES.glob("nvidia[0-9]*")) or (DEVICES / "kfd").exists()
    return sys.platform != "linux" or has_one


def _installed() -> str:
    try:
        return version("torch")
    except PackageNotFoundError:
        return "unknown"


def is_shell(module: ModuleType | None) -> bool:
    """Whether nobody has looked into a module yet that was put off."""
    return module is not None and isinstance(vars(module).get("__getattr__"), _Ask)


class PutOff:
    """Finds these modules as shells, which are filled at the first look into one.

    An import system's finder and loader. A shell stays the module that it becomes, so that nobody
    holds an old one. Any thread may be the first to look; others wait for it.

    Args:
        names: Modules, in the order in which they are filled when all are.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._unfound = list(names)
        self._unfilled = [*names]
        self._package: str | None = None
        self._others: frozenset[str] = frozenset()
        self._lock = threading.RLock()
        self._is_filling = False

    def guard(self, package: str, others: Sequence[str]) -> None:
        """Fill all as soon as another module of the package is imported, or one of these others.

        Until now, while the package itself was imported, each was filled alone.
        """
        self._package, self._others = f"{package}.", frozenset(others)
        self._unfound.clear()
        self._unfilled = [name for name in self._unfilled if is_shell(sys.modules.get(name))]

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a shell; of what is guarded nothing, but the shells are filled."""
        if name in self._unfound:
            self._unfound.remove(name)
            found = PathFinder.find_spec(name, path)
            own: Any = self  # A loader by what it does, of no class of theirs.
            return found and ModuleSpec(name, own, origin=found.origin)
        if self._package is None or not self._unfilled:
            return None
        is_guarded = name.startswith(self._package) or name in self._others
        # Whoever imports holds that module's lock, which the one who fills could come to want.
        if is_guarded and self._lock.acquire(blocking=False):
            try:
                if not self._is_filling:
                    self._fill_all()
            finally:
                self._lock.release()
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Have a plain module made."""

    def exec_module(self, module: ModuleType) -> None:
        """Make it a shell: what it lacks is asked for here."""
        assert module.__spec__ is not None
        # What looks through all modules asks each for its file.
        module.__file__ = module.__spec__.origin
        vars(module)["__getattr__"] = _Ask(self, module)

    def fill_for(self, module: ModuleType) -> None:
        """Fill a shell for who looks into it, and with it all others, but for those of a filling.

        What a shell is filled with looks into others; so does the package while it is imported.
        """
        with self._lock:
            if self._package is not None and not self._is_filling:
                self._fill_all()
            elif module.__name__ in self._unfilled:
                self._fill(module.__name__)

    def _fill_all(self) -> None:
        self._is_filling = True
        try:
            while self._unfilled:
                self._fill(self._unfilled[0])
        finally:
            self._is_filling = False

    def _fill(self, name: str) -> None:
        self._unfilled.remove(name)
        module = sys.modules[name]
        importlib.reload(module)
        # Not before: it is what other threads wait in. The module may have put its own there.
        if is_shell(module):
            del vars(module)["__getattr__"]


class _Ask:
    """A shell's `__getattr__`."""

    def __init__(self, parts: PutOff, module: ModuleType) -> None:
        self._parts, self._module = parts, module

    def __call__(self, name: str) -> object:
        if name in _ASKED or not name.startswith("__"):
            self._parts.fill_for(self._module)
            if not is_shell(self._module):
                return getattr(self._module, name)
        raise AttributeError(f"module {self._module.__name__!r} has no attribute {name!r}")
