"""Arguments of a tool from a shell's words: the tool's own schema says what a word means.

Only reads; whether the arguments make sense is for the tool to say.
"""

import json
from collections.abc import Iterable
from typing import Any, TextIO

from sie_mcp.errors import SettingError

# What one call may hold at all; the tools have closer limits.
MAX_JSON_CHARS = 64 * 1024 * 1024


def read_arguments(
    schema: dict[str, Any], words: Iterable[str], text: str, stdin: TextIO
) -> dict[str, Any]:
    """Return a tool's arguments: those of a JSON object, and those named one by one over them.

    Args:
        schema: The tool's input schema.
        words: `name=value`. A list takes one more text each time its name is given.
        text: A JSON object; "-" reads it from `stdin`, "" is none.
        stdin: Where "-" reads.

    Raises:
        SettingError: no JSON object, or a word that cannot be what the schema wants.
    """
    arguments = _object(stdin.read(MAX_JSON_CHARS + 1) if text == "-" else text)
    properties = schema.get("properties", {})
    named: dict[str, Any] = {}
    for word in words:
        name, separator, value = word.partition("=")
        if not separator:
            raise SettingError(f"--arg {word!r}: write it as name=value")
        _add(named, name, _value(name, value, _types(properties.get(name, {}))))
    return arguments | named


def _object(text: str) -> dict[str, Any]:
    if not text:
        return {}
    if len(text) > MAX_JSON_CHARS:
        raise SettingError(f"--json: more than {MAX_JSON_CHARS} characters; use a path argument")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SettingError(f"--json: not JSON ({error})") from error
    if not isinstance(found, dict):
        raise SettingError('--json: give an object such as {"query": "..."}')
    return found


def _types(schema: dict[str, Any]) -> set[str]:
    """Return what a value may be; an unknown name is taken as text, for the tool to refuse."""
    branches = [schema, *schema.get("anyOf", [])]
    return {str(branch["type"]) for branch in branches if "type" in branch} or {"string"}


def _value(name: str, value: str, types: set[str]) -> Any:
    if "array" in types and value.startswith("["):
        return _parsed(name, value, "an array: write it as JSON, or use --json for such a text")
    if "string" in types:
        return value
    if "array" in types:
        return [value]
    return _parsed(name, value, f"{' or '.join(sorted(types))}")


def _parsed(name: str, value: str, wanted: str) -> Any:
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise SettingError(f"--arg {name}={value!r}: this argument is {wanted}") from error


def _add(named: dict[str, Any], name: str, value: Any) -> None:
    if name not in named:
        named[name] = value
    elif isinstance(named[name], list) and isinstance(value, list):
        named[name] += value
    else:
        raise SettingError(f"--arg {name} is given twice, and is no list")
