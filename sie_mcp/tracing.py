"""Spans from a tool call to the forward pass; nothing at all where tracing is off.

Spans carry names, counts and times, never a text. The library is loaded when tracing starts.
"""

import importlib
import logging
from collections.abc import Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager, nullcontext

from sie_mcp.errors import SettingError
from sie_mcp.spans import Kind, Tracer, Value

logger = logging.getLogger(__name__)

MISSING = "tracing needs the OpenTelemetry SDK; run: pip install 'sie-mcp[otel]'"
_OFF = nullcontext()


class _State:
    tracer: Tracer | None = None


def start_tracing(service: str, mode: str, *, is_wanted: bool) -> None:
    """Start where it is on, or wanted by the OTEL_* variables that say where traces go.

    Raises:
        SettingError: it must start and cannot.
    """
    if mode == "off" or (mode == "auto" and not is_wanted):
        return
    try:
        made = importlib.import_module("sie_mcp.tracing_otel").start(service)
    except ModuleNotFoundError as error:
        if mode == "on":
            raise SettingError(f"{MISSING} (no module {error.name})") from error
        logger.warning("OTEL_* variables are set, but %s", MISSING)
        return
    use(made)


def use(tracer: Tracer | None) -> None:
    """Make spans with this tracer from now on; None makes none."""
    _State.tracer = tracer


def is_on() -> bool:
    """Whether spans are made."""
    return _State.tracer is not None


def span(
    name: str,
    kind: Kind = "internal",
    *,
    parent: Mapping[str, str] | None = None,
    links: Sequence[object] = (),
    **attributes: Value,
) -> AbstractContextManager[object]:
    """Return a span that lasts as long as its block; `parent` are headers of who asked."""
    if _State.tracer is None:
        return _OFF
    return _State.tracer.span(name, kind, parent, links, attributes)


def past_span(name: str, start_s: float, end_s: float, **attributes: Value) -> None:
    """Add a span of what is over, by the monotonic clock, to the one that lasts."""
    if _State.tracer is not None:
        _State.tracer.past(name, start_s, max(end_s, start_s), attributes)


def annotate(**attributes: Value) -> None:
    """Add to the span that lasts."""
    if _State.tracer is not None:
        _State.tracer.annotate(attributes)


def inject(headers: MutableMapping[str, str]) -> None:
    """Write where a span belongs into the headers of a request."""
    if _State.tracer is not None:
        _State.tracer.inject(headers)


def attached(headers: Mapping[str, str]) -> AbstractContextManager[object]:
    """Return a block whose spans belong where the headers of a request say."""
    return _OFF if _State.tracer is None else _State.tracer.attached(headers)


def here() -> object | None:
    """Return what another span can be linked to; None where tracing is off."""
    return None if _State.tracer is None else _State.tracer.here()
