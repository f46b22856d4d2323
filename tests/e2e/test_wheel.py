"""The wheel holds everything the program needs, and nothing of another distribution's name."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

from sie_mcp.catalogue.files import load_catalogue
from sie_mcp.tools.registry import build_tools
from tests.e2e.conftest import ROOT, environment

LIST_TOOLS = """
import json, sie_mcp
from sie_mcp.catalogue.files import load_catalogue
from sie_mcp.tools.registry import build_tools
print(json.dumps({
    "file": sie_mcp.__file__,
    "tools": [tool.name for tool in build_tools()],
    "models": len(load_catalogue().models),
}))
"""


def build_wheel(folder: Path) -> Path:
    """Build the wheel from the files that version control knows."""
    tracked = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True
    ).stdout.split("\0")
    source = folder / "source"
    for name in filter(None, tracked):
        origin, place = ROOT / name, source / name
        if not name.startswith("evals/") and origin.is_file() and not origin.is_symlink():
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(origin.read_bytes())
    for link in ("engine", "adapters", "tools"):
        (source / link).symlink_to(f"sie_mcp/{link}")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", str(folder)]
    done = subprocess.run([*command, str(source)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return next(folder.glob("*.whl"))


def test_the_wheel_is_whole_and_starts_elsewhere(tmp_path):
    wheel = build_wheel(tmp_path)
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(tmp_path / "site")
    tops = {name.split("/")[0] for name in names}
    assert tops == {"sie_mcp", wheel.name.rsplit("-py3", 1)[0] + ".dist-info"}
    assert any(name.endswith("shopify.en.tsv.gz") for name in names)
    assert any(name.endswith("LICENSE.shopify-product-taxonomy.txt") for name in names)
    assert any(name.endswith("models.toml") for name in names)
    assert not any("tests" in name or "evals" in name for name in names)
    env = environment(tmp_path) | {"PYTHONPATH": str(tmp_path / "site")}
    done = subprocess.run(
        [sys.executable, "-P", "-c", LIST_TOOLS],
        capture_output=True,
        text=True,
        env=env,
        cwd=tmp_path,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found["file"].startswith(str(tmp_path / "site"))
    assert len(found["tools"]) == len(build_tools())
    assert found["models"] == len(load_catalogue().models)
