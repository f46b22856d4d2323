"""What is published beside the wheel: the registry's file, the bundle, the skill. All say the same.

The bundle is checked by its own tool where Node and the npm registry can be had.
"""

import functools
import json
import operator
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from pydantic import ValidationError

import sie_mcp
from sie_mcp import cli
from sie_mcp.config import PREFIX, Config
from sie_mcp.tools.registry import build_tools
from tests.registry_rules import ServerFile

ROOT = Path(__file__).parents[1]
SERVER = json.loads((ROOT / "server.json").read_text())
MANIFEST = json.loads((ROOT / "bundle" / "manifest.json").read_text())
SKILL = (ROOT / "skills" / "sie-mcp" / "SKILL.md").read_text()
TOOLS = {tool.name: tool for tool in build_tools()}
MCPB = re.findall(r"@anthropic-ai/mcpb@[\d.]+", (ROOT / "Makefile").read_text())[0]


def test_all_have_the_version_of_the_package():
    bundled = tomllib.loads((ROOT / "bundle" / "pyproject.toml").read_text())["project"]
    (package,) = SERVER["packages"]
    version = sie_mcp.__version__
    assert SERVER["version"] == package["version"] == version
    assert MANIFEST["version"] == bundled["version"] == version
    assert bundled["dependencies"] == [f"sie-mcp[engine,search]=={version}"]
    assert package["runtimeArguments"][0]["value"] == f"sie-mcp[engine]=={version}"


def test_the_registrys_file_keeps_to_the_registrys_rules():
    ServerFile.model_validate(SERVER)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (["name"], "no-namespace"),
        (["description"], "x" * 101),
        (["websiteURL"], "https://example.com"),
        (["packages", 0, "version"], "latest"),
        (["packages", 0, "version"], ">=1.0"),
        (["packages", 0, "transport", "type"], "sse"),
        (["packages", 0, "packageArguments", 0], {"type": "positional"}),
        (["packages", 0, "packageArguments", 0], {"type": "named", "value": "x"}),
        (["packages", 0, "environmentVariables", 0, "name"], "not a name"),
        (["packages", 0, "environmentVariables", 3, "default"], "yes"),
        (["packages", 0, "environmentVariables", 3, "format"], "folder"),
    ],
)
def test_the_registrys_rules_refuse_a_broken_file(place, value):
    broken = json.loads(json.dumps(SERVER))
    *parents, last = place
    functools.reduce(operator.getitem, parents, broken)[last] = value
    with pytest.raises(ValidationError):
        ServerFile.model_validate(broken)


def test_every_variable_that_is_offered_is_a_setting():
    offered = [one["name"] for one in SERVER["packages"][0]["environmentVariables"]]
    offered += MANIFEST["server"]["mcp_config"]["env"]
    for name in offered:
        assert name.removeprefix(PREFIX).lower() in Config.model_fields, name


def test_the_bundle_lists_the_tools_that_there_are():
    assert [tool["name"] for tool in MANIFEST["tools"]] == list(TOOLS)


def test_the_bundle_asks_for_what_it_hands_on():
    text = json.dumps(MANIFEST["server"])
    assert set(re.findall(r"user_config\.(\w+)", text)) == set(MANIFEST["user_config"])


def test_the_bundles_program_allows_the_folders_it_is_given(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["main.py", "/a b", "/c"])
    monkeypatch.setattr(cli, "main", lambda: None)
    runpy.run_path(str(ROOT / "bundle" / MANIFEST["server"]["entry_point"]))
    assert sys.argv[1:] == ["stdio", "--allow", "/a b", "--allow", "/c"]


def test_the_skill_is_short_and_named_like_its_folder():
    _, front, body = SKILL.split("---\n", 2)
    fields = dict(line.split(": ", 1) for line in front.strip().splitlines())
    assert fields["name"] == "sie-mcp"
    assert len(fields["description"]) <= 1024
    assert len(SKILL) < 5_000
    assert all(f"`{name}`" in body for name in TOOLS)


def test_the_calls_that_the_skill_shows_are_right():
    calls = re.findall(r"^`(\w+)\((.+)\)`$", SKILL, re.MULTILINE)
    assert len(calls) == 3
    for name, arguments in calls:
        known = TOOLS[name].parameters["properties"]
        assert set(re.findall(r"(\w+)=", arguments)) <= set(known), name


def test_the_bundle_is_valid_and_can_be_packed(tmp_path):
    npx = shutil.which("npx")
    if npx is None:
        pytest.skip("no Node here")
    tried = mcpb(npx, "--version")
    if tried.returncode:
        pytest.skip(f"{MCPB} cannot be installed: {tried.stderr.strip()[-200:]}")
    validated = mcpb(npx, "validate", str(ROOT / "bundle" / "manifest.json"))
    assert validated.returncode == 0, validated.stdout + validated.stderr
    packed = mcpb(npx, "pack", str(ROOT / "bundle"), str(tmp_path / "sie-mcp.mcpb"))
    assert packed.returncode == 0, packed.stdout + packed.stderr
    assert (tmp_path / "sie-mcp.mcpb").stat().st_size < 100_000


def mcpb(npx: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the bundle's own tool."""
    command = [npx, "--yes", MCPB, *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=90, stdin=subprocess.DEVNULL
    )
