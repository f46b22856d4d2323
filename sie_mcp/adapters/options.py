"""Options of a request that a model cannot honour: refused, never passed over in silence."""

from sie_mcp import wire
from sie_mcp.errors import InvalidInput


def refuse_others(options: wire.ExtractOptions, known: tuple[str, ...], what: str) -> None:
    """Refuse options that were given and are not known.

    Args:
        options: What was asked for; an option at its default counts as not given.
        known: Names of the options that are honoured.
        what: Who honours them, for the message.

    Raises:
        InvalidInput: naming the option and those that would work.
    """
    given = options.model_dump()
    defaults = wire.ExtractOptions().model_dump()
    for name, value in given.items():
        if value != defaults[name] and name not in known:
            raise InvalidInput(f"{what} has no option {name}; it has: {', '.join(known)}")
