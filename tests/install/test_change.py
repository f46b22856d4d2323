"""Putting the server into every client's file and out again, in folders of the test's own."""

import json
import os
import stat
import tomllib

import pytest

from sie_mcp.errors import ConfigurationRefused, SettingError
from sie_mcp.install import change, files
from sie_mcp.install.clients import CLIENTS, find_client, merged_entry, new_entry
from sie_mcp.install.documents import entries_in, parse
from sie_mcp.install.servers import LocalServer, RemoteServer
from tests.install.places import places_in

LOCAL = LocalServer("/opt/python", ("-P", "-m", "sie_mcp", "stdio", "--allow", "/data"), {"A": "1"})
REMOTE = RemoteServer("https://mcp.example.com/mcp", "TOKEN")
SPOTS = [(client.name, scope) for client in CLIENTS.values() for scope in client.spots]


@pytest.fixture
def places(tmp_path):
    return places_in(tmp_path)


@pytest.mark.parametrize(("name", "scope"), SPOTS)
def test_an_entry_goes_in_once_and_out_once(places, name, scope):
    client = CLIENTS[name]
    spot = client.spot(scope, places)
    entry = new_entry(client, LOCAL)
    assert change.put(client, spot, "sie", entry).is_changed
    assert not change.put(client, spot, "sie", entry).is_changed
    assert change.current_entry(client, spot, "sie") == entry
    assert entries_in(parse(spot.file.read_text(), client.form), spot.keys) == {"sie": entry}
    assert change.remove(client, spot, "sie").is_changed
    assert not change.remove(client, spot, "sie").is_changed
    assert change.current_entry(client, spot, "sie") is None


def test_every_client_reads_the_entry_in_its_own_words(places):
    entries = {name: new_entry(client, LOCAL) for name, client in CLIENTS.items()}
    plain = {"command": LOCAL.command, "args": list(LOCAL.args), "env": {"A": "1"}}
    assert entries["claude-desktop"] == entries["cursor"] == plain
    assert entries["claude-code"] == entries["vscode"] == {"type": "stdio"} | plain
    assert entries["codex"] == plain | {"startup_timeout_sec": 30}


def test_remote_entries_refer_to_the_token_and_never_hold_it():
    entries = {
        name: new_entry(client, REMOTE) for name, client in CLIENTS.items() if client.takes_urls
    }
    url = REMOTE.url
    assert entries == {
        "claude-code": {
            "type": "http", "url": url, "headers": {"Authorization": "Bearer ${TOKEN}"}
        },
        "cursor": {"url": url, "headers": {"Authorization": "Bearer ${env:TOKEN}"}},
        "vscode": {
            "type": "http", "url": url, "headers": {"Authorization": "Bearer ${env:TOKEN}"}
        },
        "codex": {"url": url, "bearer_token_env_var": "TOKEN"},
    }  # fmt: skip
    assert new_entry(CLIENTS["cursor"], RemoteServer(url)) == {"url": url}


def test_claude_desktop_says_where_remote_servers_go_and_asks_for_folders():
    with pytest.raises(SettingError, match=r"Connectors.*https://mcp\.example\.com/mcp"):
        new_entry(CLIENTS["claude-desktop"], REMOTE)
    with pytest.raises(SettingError, match="--allow ~/Documents"):
        new_entry(CLIENTS["claude-desktop"], LocalServer("x", ("stdio",)))


def test_unknown_clients_and_scopes_are_refused_with_those_that_are_known(places):
    with pytest.raises(SettingError, match="known: claude-code, claude-desktop, cursor"):
        find_client("emacs")
    with pytest.raises(SettingError, match=r"known: user$"):
        CLIENTS["claude-desktop"].spot("project", places)


def test_fields_and_variables_of_the_user_survive_a_new_entry():
    old = {"command": "old", "env": {"HF_TOKEN": "t", "A": "0"}, "disabled": True, "type": "stdio"}
    new = {"command": "new", "args": [], "env": {"A": "1"}}
    merged = merged_entry(old, new)
    assert merged == new | {"disabled": True, "env": {"HF_TOKEN": "t", "A": "1"}}
    assert merged_entry(old, {"command": "new"})["env"] == {"HF_TOKEN": "t", "A": "0"}
    assert merged_entry(old, {"url": "u"}) == {"url": "u", "disabled": True}
    assert merged_entry({"url": "u", "headers": {}}, new) == new


def test_the_old_file_is_kept_with_its_permissions_line_ends_and_mark(places):
    client = CLIENTS["cursor"]
    spot = client.spot(None, places)
    spot.file.parent.mkdir(parents=True)
    before = b'\xef\xbb\xbf{\r\n  "x": 1\r\n}\r\n'
    spot.file.write_bytes(before)
    spot.file.chmod(0o600)
    done = change.put(client, spot, "sie", new_entry(client, LOCAL))
    assert done.backup is not None
    assert done.backup.read_bytes() == before
    after = spot.file.read_bytes()
    assert after.startswith(b'\xef\xbb\xbf{\r\n  "x": 1,\r\n')
    assert after.count(b"\n") == after.count(b"\r\n")
    for path in (spot.file, done.backup):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(path.name for path in spot.file.parent.iterdir()) == [
        "mcp.json",
        "mcp.json" + files.BACKUP_SUFFIX,
    ]


def test_a_link_stays_a_link(places, tmp_path):
    client = CLIENTS["codex"]
    spot = client.spot(None, places)
    spot.file.parent.mkdir(parents=True)
    (tmp_path / "dotfiles.toml").write_text("# mine\n")
    spot.file.symlink_to(tmp_path / "dotfiles.toml")
    change.put(client, spot, "sie", new_entry(client, LOCAL))
    assert spot.file.is_symlink()
    text = (tmp_path / "dotfiles.toml").read_text()
    assert text.startswith("# mine\n")
    assert "sie" in tomllib.loads(text)["mcp_servers"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"servers": {}, // mine\n}', "comments"),
        (b"\xff\xfe{}", "not UTF-8"),
        (b'{"servers": {"sie": 3}}', "'sie' is not a table"),
        (b'{"a": "\\ud800"}', "surrogate"),
    ],
)
def test_a_file_that_cannot_be_changed_safely_is_left_as_it_is(places, content, reason):
    client = CLIENTS["vscode"]
    spot = client.spot("project", places)
    spot.file.parent.mkdir(parents=True)
    spot.file.write_bytes(content)
    with pytest.raises(ConfigurationRefused, match=reason):
        change.put(client, spot, "sie", new_entry(client, LOCAL))
    assert spot.file.read_bytes() == content
    assert list(spot.file.parent.iterdir()) == [spot.file]


def test_a_file_that_changed_meanwhile_is_not_overwritten(places):
    path = places.home / "x.json"
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    original = files.read(path)
    path.write_text('{"new": 1}')
    with pytest.raises(ConfigurationRefused, match="changed by another program"):
        files.replace(original, "{}")
    assert json.loads(path.read_text()) == {"new": 1}


def test_a_folder_in_a_files_place_and_one_in_its_way_are_refused(places):
    places.home.mkdir(parents=True)
    with pytest.raises(ConfigurationRefused, match="cannot be read"):
        files.read(places.home)
    (places.home / "file").touch()
    with pytest.raises(ConfigurationRefused, match="cannot be"):
        files.replace(files.Original(places.home / "file" / "x", None, ""), "{}")


def test_a_huge_file_is_refused(places, monkeypatch):
    places.home.mkdir(parents=True)
    path = places.home / "x"
    path.write_text("{}" * 9)
    monkeypatch.setattr(files, "MAX_BYTES", 9)
    with pytest.raises(ConfigurationRefused, match="more than 9 bytes"):
        files.read(path)
    assert os.path.getsize(path) == 18
