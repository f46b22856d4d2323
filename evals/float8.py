"""What eight-bit floats cost: search on Cranfield with one model's real weights, in three dtypes.

`python -m evals.float8 --model FOLDER` needs a CUDA device of capability 8.9, evals/data/cranfield
and a checkpoint; no network and no worker. Exits with 1 when nDCG@10 in eight bits is more than
.003 from that in bfloat16 or float32. `--halve FOLDER --model TARGET` writes a checkpoint in half
precision, half as large, and measures nothing. `--cpu` measures the plain twins, on any machine.
"""

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from evals import datasets
from evals.figures import retrieval_figures
from sie_mcp import wire
from sie_mcp.adapters import create
from sie_mcp.adapters.adapter import Adapter
from sie_mcp.adapters.fast_paths import paths_of, read_layout
from sie_mcp.adapters.layers.float8_linear import FLOAT8, Float8Linear
from sie_mcp.adapters.packing import pack, unpack

TOLERANCE = 0.003
BATCH = 64
RESULTS = Path(__file__).parent / "results"
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "fp8": FLOAT8}
SMALL_FILES = ("*.json", "*.txt", "*/config.json", "LICENSE*")


def main() -> int:
    """Measure, print, record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="a checkpoint's folder")
    parser.add_argument("--halve", type=Path, help="a checkpoint to write there instead")
    parser.add_argument("--cpu", action="store_true", help="the plain twins, without a device")
    parser.add_argument("--documents", type=int, default=0, help="the first so many, no nDCG")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where to keep the figures")
    given = parser.parse_args()
    if given.halve:
        halve(given.halve, given.model)
        return 0
    device = torch.device("cpu" if given.cpu else "cuda")
    rows = measure(given.model, device, given.documents)
    record = {
        "command": " ".join(["python -m evals.float8", *sys.argv[1:]]),
        "torch": torch.__version__,
        "device": "CPU" if given.cpu else torch.cuda.get_device_name(),
        "rows": rows,
    }
    print(json.dumps(record, indent=1))
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "float8.json").write_text(json.dumps(record, indent=1) + "\n")
    if given.documents:
        return 0
    found = {row["dtype"]: row["nDCG@10"] for row in rows}
    apart = max(abs(found["fp8"] - found[other]) for other in ("float32", "bfloat16"))
    return 0 if apart <= TOLERANCE else 1


def halve(source: Path, target: Path) -> None:
    """Write a checkpoint whose numbers are float16."""
    for pattern in SMALL_FILES:
        for file in source.glob(pattern):
            place = target / file.relative_to(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, place)
    tensors = load_file(source / "model.safetensors")
    small = {name: one.half() if one.is_floating_point() else one for name, one in tensors.items()}
    save_file(small, target / "model.safetensors")


def measure(folder: Path, device: torch.device, num_documents: int = 0) -> list[dict[str, Any]]:
    """Return a row a dtype: figures of search, cosines to float32, bytes, seconds.

    Args:
        folder: A checkpoint that makes dense vectors.
        device: Where it runs.
        num_documents: Compare only the first so many, and search nothing; 0: all.
    """
    data = datasets.read_retrieval("cranfield")
    documents = data.documents[:num_documents] if num_documents else data.documents
    judged = [place for place, name in enumerate(data.query_ids) if name in data.relevant]
    queries = [data.queries[place] for place in judged[: num_documents or None]]
    filled = [place for place, text in enumerate(documents) if text.strip()]
    rows: list[dict[str, Any]] = []
    exact: np.ndarray | None = None
    for name, dtype in DTYPES.items():
        adapter = _loaded(folder, device, dtype)
        started = time.perf_counter()
        vectors = np.zeros((len(documents), adapter.card.dims["dense"]), np.float32)
        vectors[filled] = encode(adapter, [documents[place] for place in filled], device)
        asked = encode(adapter, queries, device)
        seconds = time.perf_counter() - started
        both = np.concatenate([vectors[filled], asked])
        exact = both if exact is None else exact
        cosines = (both * exact).sum(-1)
        row = {
            "dtype": name,
            "mean_cosine": round(float(cosines.mean()), 6),
            "min_cosine": round(float(cosines.min()), 6),
            "bytes": adapter.weights.size_bytes if adapter.weights else 0,
            "layers_in_fp8": _num_eights(adapter),
            "paths": sorted(paths_of(adapter)),
            "seconds": round(seconds, 2),
        }
        if not num_documents:
            scores = np.zeros((len(data.queries), len(documents)), np.float32)
            scores[judged] = asked @ vectors.T
            figures = retrieval_figures(data, scores, folder.name, {})
            row |= {one.measure.split()[-1]: round(one.value, 4) for one in figures}
        rows.append(row)
    return rows


def encode(adapter: Adapter, texts: list[str], device: torch.device) -> np.ndarray:
    """Return unit vectors, `(len(texts), dims)`; batches of similar lengths."""
    request = wire.EncodeRequest(items=[wire.Item(text=text) for text in texts])
    sequences = adapter.prepare(request).sequences
    order = sorted(range(len(texts)), key=lambda place: -sequences[place].num_tokens)
    found: list[np.ndarray] = [np.zeros(0)] * len(texts)
    is_laid_out = read_layout(paths_of(adapter))
    with torch.inference_mode():
        for start in range(0, len(order), BATCH):
            places = order[start : start + BATCH]
            batch = pack([sequences[one] for one in places], device, is_laid_out=is_laid_out)
            for place, one in zip(places, unpack(adapter.forward(batch), len(places)), strict=True):
                found[place] = one["dense"][0]
    vectors = np.stack(found).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def _loaded(folder: Path, device: torch.device, dtype: torch.dtype) -> Adapter:
    """Load without the check that would serve another dtype: its figures are what is asked for."""
    recipe = create.read_recipe(folder.name, folder, None)
    paths = frozenset({"kernels"}) if dtype != torch.float32 else frozenset()
    return create.load_adapter(recipe, device=device, dtype=dtype, paths=paths)


def _num_eights(adapter: Adapter) -> int:
    inner: Any = adapter
    while not hasattr(inner, "_model"):
        inner = inner._adapter
    modules: Callable[[], Any] = inner._model.modules
    return sum(isinstance(one, Float8Linear) for one in modules())


if __name__ == "__main__":
    sys.exit(main())
