"""Libraries that only some formats and tools need: imported at first use, for a quick start."""

import importlib
from types import ModuleType

from sie_mcp.errors import InvalidInput

# What to install for which of our modules' libraries.
_EXTRAS = {
    "docling": "sie-mcp[docling]",
    "lancedb": "sie-mcp[search]",
    "pathspec": "sie-mcp[search]",
    "phonenumbers": "sie-mcp[pii]",
    "pyarrow": "sie-mcp[parquet]",
    "pypdf": "pypdf",
    "rdflib": "sie-mcp[skos]",
    "selectolax": "selectolax",
}


def load(module: str) -> ModuleType:
    """Import one of our modules by name.

    Raises:
        InvalidInput: a library it needs is not installed; says how to install it.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library not in _EXTRAS:
            raise
        raise missing(library) from error


def missing(library: str) -> InvalidInput:
    """Return the error that a library is not installed, with how to install it."""
    return InvalidInput(
        f"this needs {library}, which is not installed beside the server; run: "
        f"pip install '{_EXTRAS[library]}'"
    )
