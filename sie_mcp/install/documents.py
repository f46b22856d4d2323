"""A client's file as text and as data: read strictly, changed in one place, written back.

Knows JSON and TOML; knows no client. What cannot be kept is a reason to refuse.
"""

import copy
import json
import re
import tomllib
from collections.abc import MutableMapping
from typing import Any, NoReturn

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AbstractTable, InlineTable

from sie_mcp.errors import ConfigurationRefused
from sie_mcp.install.clients import Form

Tree = MutableMapping[str, Any]


def parse(text: str, form: Form) -> dict[str, Any]:
    """Return a file's data; an empty file is an empty table.

    Raises:
        ConfigurationRefused: not strictly of its form, and why.
    """
    try:
        data = tomllib.loads(text) if form == "toml" else _strict_json(text)
    except ValueError as error:
        reason = "it has comments or trailing commas, or is broken" if form == "json" else "broken"
        raise ConfigurationRefused(
            f"it is not strict {form.upper()} ({error}): {reason}"
        ) from error
    except RecursionError as error:
        raise ConfigurationRefused("it is nested too deeply") from error
    if not isinstance(data, dict):
        raise ConfigurationRefused("it does not hold a table at its top")
    return data


def with_entry(
    text: str, form: Form, keys: tuple[str, ...], name: str, entry: dict[str, Any] | None
) -> str:
    """Return the text with one entry put in, or taken out for None; all else means the same.

    Raises:
        ConfigurationRefused: the text cannot be parsed, or changing it would lose something.
    """
    wanted = parse(text, form)
    tree: Tree = _toml_tree(text) if form == "toml" else copy.deepcopy(wanted)
    for one in (wanted, tree):
        servers = _table_at(one, keys, form if one is tree else "json")
        if entry is None:
            servers.pop(name, None)
        elif one is tree and form == "toml":
            servers[name] = _toml_table(entry, is_inline=isinstance(servers, InlineTable))
        else:
            servers[name] = entry
    changed = tomlkit.dumps(tree) if form == "toml" else _dump_json(tree, like=text)
    result = parse(changed, form)
    if form == "toml":
        # There a table exists through what it holds: without its last server it is gone.
        result = _prune(result, keys)
        wanted = _prune(wanted, keys)
    if result != wanted:
        raise ConfigurationRefused("its layout does not let an entry be changed on its own")
    return changed


def entries_in(data: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    """Return the servers that a file names; none where it has no such table.

    Raises:
        ConfigurationRefused: something else than a table is there.
    """
    found: Any = data
    for key in keys:
        found = found.get(key, {})
        if not isinstance(found, dict):
            raise ConfigurationRefused(f"its {key!r} is not a table")
    return dict(found)


def snippet(form: Form, keys: tuple[str, ...], name: str, entry: dict[str, Any]) -> str:
    """Return the least text that holds an entry."""
    return with_entry("", form, keys, name, entry)


def _table_at(tree: Tree, keys: tuple[str, ...], form: Form) -> Tree:
    for key in keys:
        if key not in tree:
            tree[key] = tomlkit.table(is_super_table=True) if form == "toml" else {}
        tree = tree[key]
        if not isinstance(tree, MutableMapping):
            raise ConfigurationRefused(f"its {key!r} is not a table")
    return tree


def _prune(data: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    """Return the data without its table of servers if that is empty."""
    return data if entries_in(data, keys) else {k: v for k, v in data.items() if k != keys[0]}


def _toml_tree(text: str) -> Tree:
    try:
        return tomlkit.parse(text)
    except TOMLKitError as error:
        raise ConfigurationRefused(f"it is not strict TOML ({error})") from error


def _toml_table(entry: dict[str, Any], *, is_inline: bool) -> AbstractTable:
    """Tables come last: what follows one would belong to it. One in braces can hold none."""
    table = tomlkit.inline_table() if is_inline else tomlkit.table()
    for key, value in sorted(entry.items(), key=lambda pair: isinstance(pair[1], dict)):
        is_nested = is_inline and isinstance(value, dict)
        table[key] = _toml_table(value, is_inline=True) if is_nested else value
    return table


def _strict_json(text: str) -> Any:
    if not text.strip():
        return {}
    return json.loads(text, object_pairs_hook=_without_repeats, parse_constant=_refuse_constant)


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {repeated!r} stands twice in one table")
    return table


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _dump_json(tree: Tree, *, like: str) -> str:
    """Write JSON with the indentation that the text had."""
    indent = re.search(r'\n([ \t]+)"', like)
    text = json.dumps(tree, ensure_ascii=False, indent=indent[1] if indent else 2)
    return text if like.strip() and not like.endswith("\n") else text + "\n"
