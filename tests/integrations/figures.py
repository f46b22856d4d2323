"""What a run over other people's libraries found, for evals/results: `E2E_RESULTS` names the file.

Each run adds what it has: the libraries do not all fit into one environment.
"""

import json
import os
from importlib import metadata
from pathlib import Path

LIBRARIES = (
    "chromadb", "cohere", "haystack-ai", "lancedb", "langchain-core", "llama-index-core", "openai",
    "qdrant-client", "weaviate-client",
)  # fmt: skip
# What each figure is of: none is of a server of the store's own.
NOTES = [
    "chroma, lance: the store in the test's process, on disk",
    "qdrant: its client's store in memory, without its server",
    "langchain, llamaindex, haystack: their own stores in memory",
    "weaviate: its own client before a stub that compares by cosine; nothing is said of its server",
]
_NDCG: dict[str, dict[str, float]] = {}


def found(direct: float, through: float) -> None:
    """Note how well a search did, under the name of the test's file."""
    file = os.environ.get("PYTEST_CURRENT_TEST", "").partition("::")[0]
    name = Path(file).stem.removeprefix("test_")
    _NDCG[name] = {"ndcg_at_10": round(through, 4), "direct": round(direct, 4)}


def write(path: Path, num_passed: int) -> None:
    """Add this run's figures to a file."""
    kept = json.loads(path.read_text()) if path.exists() else {}
    versions = {name: version for name in LIBRARIES if (version := _version(name))}
    # The environment of most has them all but one.
    run = "weaviate" if "weaviate-client" in versions else "others"
    merged = {
        "command": "make e2e",
        "collection": "60 paragraphs and 80 questions of XQuAD in English, potion-base-8M",
        "versions": {**kept.get("versions", {}), **versions},
        "stores": {**kept.get("stores", {}), **_NDCG},
        "passed": {**kept.get("passed", {}), run: num_passed},
        "notes": NOTES,
    }
    path.write_text(json.dumps(merged, indent=1, sort_keys=True) + "\n")


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
