"""`sie-mcp key new NAME`: the key alone on stdout's first line, its entry behind it."""

import subprocess
import sys

from sie_mcp.access.keys import HASH_PREFIX, read_keys


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sie_mcp", "key", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_a_key_is_shown_with_what_belongs_in_the_file(tmp_path):
    done = run("new", "ci")
    assert done.returncode == 0
    key, _, entry = done.stdout.partition("\n")
    assert key.startswith("sie_")
    (tmp_path / "keys.toml").write_text(entry)
    assert read_keys(tmp_path / "keys.toml")["ci"].hash.startswith(HASH_PREFIX)
    assert key not in entry
    assert run("new", "ci").stdout != done.stdout


def test_a_name_that_cannot_be_one_is_refused():
    done = run("new", "a b")
    assert done.returncode == 1
    assert "cannot name a key" in done.stderr
    assert done.stdout == ""
