"""What may follow what was typed: models, taxonomies, their nodes, and paths inside of folders."""

import anyio
import pytest
from mcp import Client, MCPError
from mcp.types import INVALID_PARAMS, PromptReference, ResourceTemplateReference

from sie_mcp import wire
from sie_mcp.catalogue.taxonomy import BUILT_IN
from sie_mcp.errors import WorkerUnavailable
from sie_mcp.gateway import completions
from tests.gateway.front import gateway
from tests.gateway.in_memory import broken, session
from tests.scripted_worker import ScriptedWorker, answers

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("mode", ["auto", "legacy"])]

MODEL = ResourceTemplateReference(uri="sie://models/{+id}")
NODE = ResourceTemplateReference(uri="sie://taxonomies/{name}/{+node}")
ANSWER = PromptReference(name="find_answer")
CATALOGUE = PromptReference(name="classify_catalogue")
GRAPH = PromptReference(name="build_knowledge_graph")


async def values(client: Client, ref: object, argument: str, typed: str, **given: str) -> list[str]:
    told = {"name": argument, "value": typed}
    result = await client.complete(ref, told, context_arguments=given or None)
    assert result.completion.total in (None, len(result.completion.values))
    return result.completion.values


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a machine is busy, what there is comes later than a user would wait."""
    monkeypatch.setattr(completions, "WAIT_S", 60.0)


@pytest.fixture
def models() -> ScriptedWorker:
    names = ["bge-m3", "BAAI/bge-large", "org/other"]
    listing = wire.ModelList(models=[wire.ModelCard(name=name) for name in names])
    step = answers(listing.model_dump_json(), content_type="application/json")
    return ScriptedWorker(always=step)


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "allowed"
    (root / "docs").mkdir(parents=True)
    (root / ".hidden").mkdir()
    for name in ("a.md", "a.csv", "a.exe", "docs/deep.txt", ".hidden/x.txt", "b.json"):
        (root / name).touch()
    (tmp_path / "secret.txt").touch()
    (root / "link.txt").symlink_to(tmp_path / "secret.txt")
    (root / "out").symlink_to(tmp_path)
    return root


async def test_models_are_completed_with_or_without_their_organisation(models, mode):
    async with session(models, mode) as client:
        assert await values(client, MODEL, "id", "") == ["bge-m3", "BAAI/bge-large", "org/other"]
        assert await values(client, MODEL, "id", "BGE") == ["bge-m3", "BAAI/bge-large"]
        assert await values(client, GRAPH, "model", "org/") == ["org/other"]


async def test_without_a_worker_there_is_nothing_to_complete_with(mode, monkeypatch):
    async with broken(mode, WorkerUnavailable("none")) as client:
        assert await values(client, MODEL, "id", "b") == []
    monkeypatch.setattr(completions, "WAIT_S", 0.05)

    async def never(_: object) -> None:
        await anyio.sleep_forever()

    async with session(ScriptedWorker(always=never), mode) as client:
        assert await values(client, MODEL, "id", "b") == []


async def test_taxonomies_and_their_nodes_are_completed(worker, mode, folder):
    (folder / "own.txt").write_text("Tools > Saws\nToys > Dolls\n")
    async with session(worker, mode, allow=(folder,)) as client:
        assert await values(client, NODE, "name", "") == [
            *BUILT_IN, "a.csv", "b.json", "docs/", "own.txt",
        ]  # fmt: skip
        assert await values(client, CATALOGUE, "taxonomy", "shopify") == [
            "shopify", "shopify.de", "shopify.fr", "shopify.ja",
        ]  # fmt: skip
        assert await values(client, NODE, "node", "to", name="own.txt") == ["Tools", "Toys"]
        assert await values(client, NODE, "node", "Tools > ", name="own.txt") == ["Tools > Saws"]
        assert "Apparel & Accessories" in await values(client, NODE, "node", "app", name="shopify")
        assert await values(client, NODE, "node", "a") == []
        assert await values(client, NODE, "node", "a", name="none") == []


async def test_no_more_than_a_hundred_values_are_sent(worker, mode, tmp_path):
    (tmp_path / "many.txt").write_text("\n".join(f"label {n}" for n in range(250)))
    async with session(worker, mode, allow=(tmp_path,)) as client:
        told = {"name": "node", "value": "label"}
        found = await client.complete(NODE, told, context_arguments={"name": "many.txt"})
        assert len(found.completion.values) == 100
        assert (found.completion.total, found.completion.has_more) == (250, True)


async def test_paths_are_completed_a_folder_at_a_time(worker, mode, folder):
    async with session(worker, mode, allow=(folder,)) as client:
        assert await values(client, ANSWER, "path", "") == ["a.csv", "a.md", "docs/"]
        assert await values(client, ANSWER, "path", "a") == ["a.csv", "a.md"]
        assert await values(client, ANSWER, "path", "docs/") == ["docs/deep.txt"]
        assert await values(client, ANSWER, "path", "./docs/d") == ["./docs/deep.txt"]
        assert await values(client, ANSWER, "path", f"{folder}/d") == [f"{folder}/docs/"]
        assert await values(client, ANSWER, "path", ".h") == [".hidden/"]
        assert await values(client, ANSWER, "path", "none/x") == []


@pytest.mark.parametrize(
    "typed",
    ["../", "/", "/etc/", "/proc/self/", "out/", "link", "docs/../../", "a\0", "..\\", "~/"],
)
async def test_nothing_outside_of_the_folders_is_shown(worker, mode, folder, typed):
    async with session(worker, mode, allow=(folder,)) as client:
        assert await values(client, ANSWER, "path", typed) == []
        assert await values(client, CATALOGUE, "taxonomy", typed) == []


async def test_other_arguments_have_no_completion(worker, mode):
    async with session(worker, mode) as client:
        assert await values(client, ANSWER, "question", "w") == []
        results = ResourceTemplateReference(uri="sie://results/{id}{?offset}")
        assert await values(client, results, "id", "") == []


@pytest.mark.parametrize(
    ("ref", "argument", "says"),
    [
        (PromptReference(name="none"), "path", "there is no prompt 'none'; there are: triage_f"),
        (ANSWER, "taxonomy", "find_answer has no argument 'taxonomy'; its arguments: path, quest"),
        (CATALOGUE, "model", "classify_catalogue has no argument 'model'; its arguments: path, "),
    ],
)
async def test_an_unknown_prompt_or_argument_is_refused(worker, mode, folder, ref, argument, says):
    async with session(worker, mode, allow=(folder,)) as client:
        with pytest.raises(MCPError) as refused:
            await values(client, ref, argument, "")
    assert refused.value.error.code == INVALID_PARAMS
    assert refused.value.error.message.startswith(says)


async def test_over_http_paths_are_completed_only_where_files_are_on(mode):
    async with gateway() as front, Client(f"{front.url}/mcp", mode=mode) as client:
        assert await values(client, ANSWER, "path", "") == []
        assert await values(client, CATALOGUE, "taxonomy", "") == list(BUILT_IN)
        assert await values(client, MODEL, "id", "t") == ["toy"]
