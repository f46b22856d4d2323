"""Changing one entry of a client's file: nothing else may change, or nothing at all."""

import json
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sie_mcp.errors import ConfigurationRefused
from sie_mcp.install.documents import entries_in, parse, snippet, with_entry

JSON_KEYS, TOML_KEYS = ("mcpServers",), ("mcp_servers",)
ENTRY = {"command": "/bin/x", "args": ["a b", 'q"'], "env": {"A": "1"}}
CODEX = """\
# My settings.
model = "big"   # the large one

[mcp_servers.other]  # keep
command = "npx"
args = [
    "-y",  # yes
]

[profiles.fast]
model = "small"
"""
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=4), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(st.dictionaries(st.text(st.characters(codec="utf-8")), VALUES, max_size=4))
def test_whatever_json_held_stays_and_goes_back_to_what_it_was(data):
    data.pop("mcpServers", None)
    data["mcpServers"] = {"other": {"command": "npx", "ü": "é"}}
    text = json.dumps(data, indent=2)
    added = with_entry(text, "json", JSON_KEYS, "sie", ENTRY)
    assert json.loads(added) == data | {"mcpServers": data["mcpServers"] | {"sie": ENTRY}}
    assert list(json.loads(added)) == list(data)
    assert json.loads(with_entry(added, "json", JSON_KEYS, "sie", None)) == data


def test_json_keeps_its_indentation_its_letters_and_its_end():
    text = '{\n\t"a": "ü"\n}'
    assert with_entry(text, "json", ("m",), "s", {"b": 1}) == (
        '{\n\t"a": "ü",\n\t"m": {\n\t\t"s": {\n\t\t\t"b": 1\n\t\t}\n\t}\n}'
    )


def test_toml_keeps_every_line_it_had():
    added = with_entry(CODEX, "toml", TOML_KEYS, "sie", ENTRY)
    for line in CODEX.splitlines():
        assert line in added.splitlines()
    expected = tomllib.loads(CODEX)
    expected["mcp_servers"]["sie"] = ENTRY
    assert tomllib.loads(added) == expected
    removed = with_entry(added, "toml", TOML_KEYS, "sie", None)
    assert [line for line in removed.splitlines() if line] == [
        line for line in CODEX.splitlines() if line
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[mcp_servers]\n",
        '[mcp_servers]\na.command = "x"\n',
        'mcp_servers = { a = { command = "x" } }\nb = 1\n',
        '[mcp_servers.a]\ncommand = "x"\n[mcp_servers.a.env]\nB = "1"\n[z]\nc = 1\n',
        'mcp_servers.a.command = "x"\n',
        '[[list]]\na = 1\n[mcp_servers."sie"]\ncommand = "old"\n[[list]]\na = 2\n',
    ],
)
def test_every_way_to_write_a_toml_table_is_changed_rightly_or_refused(text):
    expected = tomllib.loads(text)
    expected.setdefault("mcp_servers", {})["sie"] = ENTRY
    try:
        added = with_entry(text, "toml", TOML_KEYS, "sie", ENTRY)
    except ConfigurationRefused as error:
        assert "layout" in str(error)
        return
    assert tomllib.loads(added) == expected


def test_the_last_server_can_be_removed():
    for form, keys in (("json", JSON_KEYS), ("toml", TOML_KEYS)):
        alone = snippet(form, keys, "sie", ENTRY)
        assert entries_in(parse(alone, form), keys) == {"sie": ENTRY}
        left = with_entry(alone, form, keys, "sie", None)
        assert entries_in(parse(left, form), keys) == {}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": 1, // why\n}', "comments or trailing commas"),
        ('{"a": 1,}', "comments or trailing commas"),
        ('{"a": NaN}', "NaN is no JSON"),
        ('{"a": 1, "a": 2}', "the key 'a' stands twice"),
        ("[]", "does not hold a table"),
        ('{"mcpServers": []}', "'mcpServers' is not a table"),
        ('{"mcpServers": null}', "'mcpServers' is not a table"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_json_that_could_lose_something_is_refused(text, reason):
    with pytest.raises(ConfigurationRefused, match=reason):
        with_entry(text, "json", JSON_KEYS, "sie", ENTRY)


@pytest.mark.parametrize(
    ("text", "reason"), [("a = ", "not strict TOML"), ("mcp_servers = 1", "not a table")]
)
def test_toml_that_is_broken_is_refused(text, reason):
    with pytest.raises(ConfigurationRefused, match=reason):
        with_entry(text, "toml", TOML_KEYS, "sie", ENTRY)
