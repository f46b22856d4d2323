"""Which rows of the table the installed libraries can save."""

import importlib

from tests.parity.row import Row


def is_known(row: Row) -> bool:
    """Whether the reference's classes are there: older libraries lack the newest families."""
    if row.reference:
        return True
    library = importlib.import_module(row.library)
    return hasattr(library, row.config_class)
