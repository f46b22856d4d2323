"""Queries and documents: the header that says which side the texts of any route are."""

from collections.abc import Mapping
from typing import get_args

from sie_mcp import wire
from sie_mcp.dialects.operation import SIDE_HEADER, Side, is_query
from sie_mcp.errors import InvalidInput


def with_side(request: wire.Request, headers: Mapping[str, str]) -> wire.Request:
    """Give an encode request the header's side, where its body names none.

    Raises:
        InvalidInput: the header is neither side.
    """
    named = headers.get(SIDE_HEADER)
    if named is None or not isinstance(request, wire.EncodeRequest):
        return request
    side = is_query(named.strip().lower())
    if side is None:
        raise InvalidInput(f"{SIDE_HEADER} {named[:40]!r} is none of {', '.join(get_args(Side))}")
    if request.params.options.is_query is not None:
        return request
    options = request.params.options.model_copy(update={"is_query": side})
    params = request.params.model_copy(update={"options": options})
    return request.model_copy(update={"params": params})
