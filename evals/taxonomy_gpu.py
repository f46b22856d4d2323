"""Products a second with a CUDA device, each stage's share, and the index: random weights.

    python -m evals.taxonomy_gpu --pack build/taxonomy    # where the models are: 2 MB, no weights
    python -m evals.taxonomy_gpu --models build/taxonomy  # where the device is: a minute or two

What is packed are the two models' configurations and tokenizers, so that shapes and tokens are the
real ones; the weights are drawn on the spot. Nothing is said of how right the categories are.
`--device cpu --products 256` checks on any machine that it runs, and keeps nothing. Linux only.
"""

import argparse
import asyncio
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import BertConfig, BertModel

from evals import taxonomy_index, taxonomy_scale, taxonomy_stages
from sie_mcp.catalogue.store import MANIFEST, stored_models
from sie_mcp.config import load_config
from sie_mcp.tools.classification import COMPANION

MODELS = ("all-MiniLM-L6-v2", COMPANION)
RESULTS = Path(__file__).parent / "results"
NOT_PACKED = ("model.safetensors", MANIFEST, "LICENSE", "data_config.json", "vocab.txt")
DEVIATION = 0.05


def pack(folder: Path) -> None:
    """Copy what the two models are but their weights."""
    stored = {one.manifest.name: one.folder for one in stored_models(load_config().cache_dir)}
    for name in MODELS:
        if name not in stored:
            raise SystemExit(f"{name} is not here; python -m sie_mcp models pull {name}")
        shutil.copytree(
            stored[name],
            folder / name,
            ignore=shutil.ignore_patterns(*NOT_PACKED),
            dirs_exist_ok=True,
        )


def unpack(packed: Path, folder: Path) -> Path:
    """Give the packed models weights; return the catalogue in which they have their names."""
    lines = []
    for name in MODELS:
        shutil.copytree(packed / name, folder / name)
        weights = _transformer(folder / name) if name == MODELS[0] else _table(folder / name)
        save_file(weights, folder / name / "model.safetensors", metadata={"format": "pt"})
        source = f'[[models.sources]]\nkind = "path"\npath = "{folder / name}"\n'
        lines.append(f'[[models]]\nname = "{name}"\ntasks = ["dense"]\n{source}')
    catalogue = folder / "models.toml"
    catalogue.write_text("\n".join(lines))
    return catalogue


def _transformer(folder: Path) -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    module = BertModel(BertConfig.from_pretrained(folder), add_pooling_layer=False)
    return {name: value.contiguous() for name, value in module.state_dict().items()}


def _table(folder: Path) -> dict[str, torch.Tensor]:
    config = json.loads((folder / "config.json").read_text())
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    shape = len(tokenizer["model"]["vocab"]), config["hidden_dim"]
    generator = torch.Generator().manual_seed(0)
    return {"embeddings": DEVIATION * torch.randn(shape, generator=generator)}


def settings(folder: Path, catalogue: Path, device: str) -> dict[str, str]:
    """Return the environment of a worker that has these models and a folder to itself."""
    return {
        "SIE_MCP_CATALOGUE_FILE": str(catalogue),
        "SIE_MCP_CACHE_DIR": str(folder / "cache"),
        "SIE_MCP_RUNTIME_DIR": str(folder / "run"),
        "SIE_MCP_WORKER_IDLE_EXIT_S": "30",
        "SIE_MCP_OFFLINE": "true",
        "SIE_MCP_DEVICE": device,
    }


def measure(device: str, num_products: int) -> dict[str, Any]:
    """Build the index, then classify from a file to a file."""
    index = asyncio.run(taxonomy_index.measure())
    stages = asyncio.run(taxonomy_stages.measure(num_products))
    kept = ("command", "threads")
    return {
        "command": "python -m evals.taxonomy_gpu --models build/taxonomy",
        "weights": "random, of the real shapes",
        "device": torch.cuda.get_device_name() if device == "cuda" else "CPU",
        "torch": torch.__version__,
        "cores": os.cpu_count(),
        "index": {key: value for key, value in index.items() if key not in kept},
        **{key: value for key, value in stages.items() if key not in kept},
    }


def main() -> None:
    """Pack, or measure and record."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--pack", type=Path, help="write the models without weights into a folder")
    options.add_argument("--models", type=Path, help="the folder that was packed")
    options.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    options.add_argument("--products", type=int, default=taxonomy_scale.NUM_DIFFERENT)
    options.add_argument("--out", type=Path, default=RESULTS)
    given = options.parse_args()
    if given.pack:
        pack(given.pack)
        return
    if given.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit(
            "there is no CUDA device here; --device cpu --products 256 checks the rest"
        )
    # A short path: a socket lies in it.
    with tempfile.TemporaryDirectory(prefix="tax") as name:
        catalogue = unpack(given.models, Path(name))
        os.environ |= settings(Path(name), catalogue, given.device)
        record = measure(given.device, given.products)
    print(json.dumps(record, indent=1))
    if given.device == "cuda":
        given.out.mkdir(parents=True, exist_ok=True)
        (given.out / "taxonomy_gpu.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
