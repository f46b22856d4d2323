"""Keys: the file, its changes, who is let in."""

import logging

import pytest

from sie_mcp.access.keys import MAX_FILE_BYTES, Keys, new_key
from sie_mcp.access.principal import CallerLimits
from sie_mcp.errors import InvalidInput, NotAuthenticated, SettingError
from sie_mcp.tools.registry import tool_names

pytestmark = pytest.mark.anyio
HASH = "sha256:" + "0" * 64


def bearing(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


async def test_a_key_tells_who_holds_it_and_what_it_may_do(key_file):
    key = key_file.add("ci", requests_per_minute=5, models=["auto", "bge-*"], tools=["rerank"])
    found = await Keys(key_file.path, CallerLimits(9, 90)).identify(bearing(key))
    assert found.name == "key:ci"
    assert found.scopes == {"models:run"}
    assert found.limits == CallerLimits(5, 90, None)
    assert found.may_use("bge-m3")
    assert not found.may_use("gliner")
    assert found.may_call("rerank")
    assert not found.may_call("embed")


async def test_the_other_header_works_too(key_file):
    key = key_file.add("ci", control=True)
    found = await Keys(key_file.path).identify({"x-api-key": key})
    assert found.scopes == {"models:run", "models:control"}


@pytest.mark.parametrize("given", ["", "sie_", "sie_wrong", "é", HASH, "x" * 20_000])
async def test_no_other_key_is_let_in(key_file, given):
    key = key_file.add("ci")
    keys = Keys(key_file.path)
    for headers in (bearing(given), {"x-api-key": given}, bearing(key[:-1]), bearing(key.upper())):
        with pytest.raises(NotAuthenticated):
            await keys.identify(headers)


async def test_the_file_does_not_hold_the_key(key_file):
    key = key_file.add("ci")
    assert key not in key_file.path.read_text()
    assert new_key("a")[0] != new_key("a")[0]
    assert len(key) >= 43


async def test_an_expired_key_is_refused(key_file):
    old = key_file.add("old", expires="EXPIRES")
    key_file.write(key_file.text.replace('"EXPIRES"', "2020-01-01"))
    young = key_file.add("young", expires="EXPIRES")
    key_file.write(key_file.text.replace('"EXPIRES"', "9999-01-01"))
    keys = Keys(key_file.path)
    await keys.identify(bearing(young))
    with pytest.raises(NotAuthenticated, match="expired on 2020-01-01"):
        await keys.identify(bearing(old))


async def test_a_change_counts_without_a_restart(key_file):
    first = key_file.add("first")
    keys = Keys(key_file.path)
    second = key_file.add("second")
    assert (await keys.identify(bearing(second))).name == "key:second"
    key_file.write("")
    key_file.add("third")
    with pytest.raises(NotAuthenticated):
        await keys.identify(bearing(first))


async def test_a_slip_in_the_file_leaves_the_keys_and_says_so_once(key_file, caplog):
    key = key_file.add("ci")
    keys = Keys(key_file.path)
    good = key_file.text
    with caplog.at_level(logging.INFO):
        for text in ("[keys", "[keys", good + "x = 1\n"):
            key_file.write(text)
            await keys.identify(bearing(key))
        key_file.path.unlink()
        await keys.identify(bearing(key))
    errors = [one for one in caplog.records if one.levelname == "ERROR"]
    assert len(errors) == 1
    key_file.write("")
    new = key_file.add("new")
    await keys.identify(bearing(new))
    with pytest.raises(NotAuthenticated):
        await keys.identify(bearing(key))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "keys: Field required"),
        ("[keys]", "at least 1 item"),
        ("[keys.a]", "keys.a.hash: Field required"),
        ("[keys.a]\nhash = 'secret'", "keys.a.hash: String should match"),
        (f"[keys.a]\nhash = '{HASH}'\nmodel = ['x']", "keys.a.model: Extra inputs"),
        (f"[keys.a]\nhash = '{HASH}'\nmax_concurrent = 0", "max_concurrent: Input should be gr"),
        (f"[keys.a]\nhash = '{HASH}'\ntokens_per_minute = '5'", "valid integer"),
        (f"[keys.a]\nhash = '{HASH}'\nmodels = 'x'", "valid list"),
        (f"[keys.a]\nhash = '{HASH}'\n[keys.b]\nhash = '{HASH}'", "two keys have the same hash"),
        (f"[keys.'a b']\nhash = '{HASH}'", "'a b' cannot name a key"),
        ("keys = 1", "valid dictionary"),
        ("[keys", "is not TOML"),
        ("# " + "x" * MAX_FILE_BYTES, "is over"),
    ],
)
def test_a_wrong_file_stops_the_start_without_repeating_it(key_file, text, message):
    key_file.write(text)
    with pytest.raises(SettingError, match="api_keys_file") as raised:
        Keys(key_file.path)
    assert message in str(raised.value)
    assert "secret" not in str(raised.value)


async def test_a_key_may_name_toolsets_and_holds_their_tools(key_file):
    key = key_file.add("ci", tools=["core", "embed"])
    found = await Keys(key_file.path, tool_names=tool_names).identify(bearing(key))
    assert found.tools == ("rerank", "filter_context", "embed")
    every = key_file.add("every", tools=["all"])
    none = key_file.add("none", tools=[])
    keys = Keys(key_file.path, tool_names=tool_names)
    assert (await keys.identify(bearing(every))).tools == tuple(tool_names(["all"]))
    assert not (await keys.identify(bearing(none))).may_call("rerank")


@pytest.mark.parametrize(
    ("tool", "says"), [("rerunk", "did you mean rerank?"), ("zzz", "known: all, core, standard")]
)
def test_a_tool_that_there_is_not_stops_the_start(key_file, tool, says):
    key_file.add("ci", tools=[tool])
    with pytest.raises(SettingError, match=f"keys.ci.tools: there is no .* {tool!r}") as raised:
        Keys(key_file.path, tool_names=tool_names)
    assert says in str(raised.value)


def test_a_missing_file_stops_the_start(key_file):
    with pytest.raises(SettingError, match="No such file"):
        Keys(key_file.path)


@pytest.mark.parametrize("name", ["", "a b", "-a", "a" * 64, "a.b", "ä"])
def test_a_name_that_no_file_could_hold_makes_no_key(name):
    with pytest.raises(InvalidInput, match="cannot name a key"):
        new_key(name)
