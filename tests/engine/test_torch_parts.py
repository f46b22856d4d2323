"""What is left out of an import comes when it is asked for, whoever asks, and as it always was."""

import importlib
import json
import subprocess
import sys
import threading
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from sie_mcp.engine import torch_parts
from sie_mcp.engine.torch_parts import CHECKED, PARTS, PutOff, import_torch, is_shell
from tests.adapters.stub_scores import FAMILIES, make
from tests.engine.digests import digest
from tests.parity.checkpoints import save
from tests.parity.run import load
from tests.parity.table import ROWS

pytestmark = pytest.mark.skipif(
    torch_parts.may_have_accelerator(), reason="torch is imported whole where a device may be"
)
PACKED = [row for row in ROWS if row.packed and "dense" in row.classes]
PADDED = next(row for row in ROWS if not row.packed)
# Imports torch as a worker does, says what every folder's model gives, and which parts it took.
WORKER = """
import json, sys
from sie_mcp.engine.torch_parts import PARTS, import_torch, is_shell
import_torch()
import torch
torch.set_num_threads(int(sys.argv[1]))
from pathlib import Path
from sie_mcp.adapters import create
from tests.engine.digests import digest
found = {"shells": []}
for folder in map(Path, sys.argv[2:]):
    recipe = create.read_recipe(folder.name, folder, None)
    cpu = torch.device("cpu")
    adapter = create.load_adapter(recipe, device=cpu, dtype=torch.float32)
    found[folder.name] = digest(adapter)
    found["shells"] = [one for one in PARTS if is_shell(sys.modules[one])]
print(json.dumps(found))
"""
MODULES = {
    "__init__": "from shop import front, back, plain\nimport shop.depot",
    "plain": "names = []",
    "front": "from shop import plain\nimport shop.front\nplain.names.append(__name__)\n"
    "value = 2 if hasattr(shop.front, 'value') else 1",
    "back": "import shop.plain, shop.front\nshop.plain.names.append(__name__)\n"
    "value = shop.front.value + 1",
    "depot/__init__": "import shop.plain\nshop.plain.names.append(__name__)\nvalue = 3\n"
    "def __getattr__(name):\n    if name == 'odd': return 7\n    raise AttributeError(name)",
    "depot/shelf": "value = 4",
    "late": "value = 5",
}


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """A package of which three modules are put off, and what puts them off."""
    for name, content in MODULES.items():
        file = tmp_path / "shop" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    (tmp_path / "stranger.py").write_text("value = 6")
    monkeypatch.syspath_prepend(tmp_path)
    parts = PutOff(["shop.front", "shop.back", "shop.depot"])
    monkeypatch.setattr(sys, "meta_path", [parts, *sys.meta_path])
    package = importlib.import_module("shop")
    parts.guard("shop", ["stranger"])
    yield package
    for name in [one for one in sys.modules if one.partition(".")[0] in ("shop", "stranger")]:
        del sys.modules[name]


ALL = ["shop.front", "shop.back", "shop.depot"]


def names_from(statement):
    """Return what an import brings."""
    names = {}
    exec(statement, names)
    return set(names)


def test_a_module_that_is_put_off_has_a_name_and_a_file_and_has_not_run(shop):
    assert [one.__name__ for one in (shop.front, shop.back, shop.depot)] == ALL
    assert shop.front.__file__.endswith("front.py")
    assert not hasattr(shop.front, "__wrapped__")
    assert shop.plain.names == []


@pytest.mark.parametrize(
    "look",
    [
        lambda shop: shop.back.value == 2,
        lambda shop: names_from("from shop.front import *") >= {"value", "plain"},
        lambda shop: names_from("from shop.depot import value") >= {"value"},
        lambda shop: importlib.import_module("shop.depot.shelf").value == shop.depot.shelf.value,
        lambda shop: importlib.import_module("shop.late").value == 5,
        lambda shop: importlib.import_module("stranger").value == 6,
    ],
    ids=[
        "an attribute",
        "all names",
        "a name",
        "a module of its own",
        "another of the package",
        "one named",
    ],
)
def test_whoever_looks_into_one_gets_all_of_them_once_and_the_same(shop, look):
    before = shop.front, shop.back, shop.depot
    assert look(shop)
    assert sorted(shop.plain.names) == sorted(ALL)
    assert (shop.front, shop.back, shop.depot) == before
    assert [sys.modules[name] for name in ALL] == list(before)
    assert [one.value for one in before] == [1, 2, 3]
    assert not any(is_shell(one) for one in before)
    assert shop.depot.odd == 7
    assert [name for name in ALL if "__getattr__" in vars(sys.modules[name])] == ["shop.depot"]
    assert shop.depot.__path__ and shop.front.__spec__.name == "shop.front"


def test_other_imports_leave_them_as_they_are(shop):
    importlib.reload(importlib.import_module("sie_mcp.engine.shape_caches"))
    assert shop.plain.names == []


def test_threads_that_look_at_once_all_find_it(shop):
    start, found = threading.Barrier(8, timeout=10), []

    def look(number):
        start.wait()
        found.append((shop.front, shop.back, shop.depot)[number % 3].value)

    threads = [threading.Thread(target=look, args=[number]) for number in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(10)
    assert sorted(found) == [1, 1, 1, 2, 2, 2, 3, 3]
    assert sorted(shop.plain.names) == sorted(ALL)


def test_what_a_module_lacks_it_still_lacks(shop):
    with pytest.raises(AttributeError, match="nothing"):
        shop.front.nothing  # noqa: B018 – asking is the test


def test_while_the_package_is_imported_only_those_that_it_needs_are_filled(
    tmp_path, monkeypatch, shop
):
    for name in [one for one in sys.modules if one.partition(".")[0] == "shop"]:
        del sys.modules[name]
    (tmp_path / "shop/__init__.py").write_text(
        "from shop import plain, front, depot\nfrom shop.back import value"
    )
    parts = PutOff(ALL)
    others = [one for one in sys.meta_path if not isinstance(one, PutOff)]
    monkeypatch.setattr(sys, "meta_path", [parts, *others])
    package = importlib.import_module("shop")
    parts.guard("shop", [])
    assert package.plain.names == ["shop.back", "shop.front"]
    assert package.depot.value == 3


def test_the_torch_of_this_environment_is_one_whose_import_was_followed():
    """Where it is not, a worker takes longer to start: check the parts, then add its version."""
    assert version("torch").startswith(tuple(f"{one}." for one in CHECKED))


def test_a_torch_that_is_there_already_is_left_as_it_is():
    finders = list(sys.meta_path)
    import_torch()
    assert sys.meta_path == finders


def test_torch_is_imported_behind_what_puts_its_parts_off(monkeypatch):
    fake, seen = SimpleNamespace(modules={}, meta_path=["usual"], platform="linux"), []
    monkeypatch.setattr(torch_parts, "sys", fake)
    monkeypatch.setattr(
        torch_parts.importlib,
        "import_module",
        lambda name: seen.append((name, len(fake.meta_path))),
    )
    monkeypatch.setattr(torch_parts, "version", lambda _: f"{CHECKED[-1]}.0+cpu")
    import_torch()
    assert seen == [("torch", 2), ("torch.utils._device", 2)]
    monkeypatch.setattr(torch_parts, "version", _none)
    import_torch()
    assert seen[2:] == [("torch", 2)]


@pytest.mark.parametrize(
    ("system", "device"), [("linux", "nvidia0"), ("linux", "kfd"), ("darwin", None)]
)
def test_where_a_device_may_be_torch_is_imported_whole(monkeypatch, tmp_path, system, device):
    fake = SimpleNamespace(modules={}, meta_path=["usual"], platform=system)
    if device is not None:
        (tmp_path / device).touch()
    seen = []
    monkeypatch.setattr(torch_parts, "sys", fake)
    monkeypatch.setattr(torch_parts, "DEVICES", tmp_path)
    monkeypatch.setattr(torch_parts.importlib, "import_module", seen.append)
    import_torch()
    assert seen == ["torch"]
    assert fake.meta_path == ["usual"]


def _none(name):
    raise PackageNotFoundError(name)


@pytest.mark.parametrize("installed", ["2.99.0", "2.130.0", None])
def test_another_version_is_imported_whole(monkeypatch, installed, tmp_path):
    (tmp_path / "torch.py").write_text("is_whole = True")
    if installed is not None:
        info = tmp_path / f"torch-{installed}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Name: torch\nVersion: {installed}\n")
    script = (
        "import sys; sys.path[:0] = sys.argv[1:]; before = len(sys.meta_path); "
        "from sie_mcp.engine.torch_parts import import_torch; import_torch(); import torch; "
        "print(torch.is_whole, len(sys.meta_path) - before)"
    )
    root = Path(torch_parts.__file__).parents[2]
    # Without the packages that are installed, torch among them.
    found = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script, str(tmp_path), str(root)],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert found.stdout.split() == ["True", "0"]


def test_no_packed_model_needs_them_and_every_number_is_the_same(tmp_path):
    folders = [tmp_path / row.name for row in PACKED]
    for row, folder in zip(PACKED, folders, strict=True):
        save(row, "dense", folder)
    found = _in_a_worker(folders)
    assert found.pop("shells") == list(PARTS)
    assert found == {one.name: digest(load(one)) for one in folders}


def test_models_that_ask_the_transformers_library_get_all_of_torch(tmp_path):
    folders = [tmp_path / name for name in (*FAMILIES, "padded")]
    for folder in folders[:-1]:
        folder.mkdir()
        make(folder.name, folder)
    save(PADDED, "dense", folders[-1])
    found = _in_a_worker(folders)
    assert found.pop("shells") == []
    assert found == {one.name: digest(load(one)) for one in folders}


def _in_a_worker(folders: list[Path]) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-c", WORKER, str(torch.get_num_threads()), *map(str, folders)],
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found
