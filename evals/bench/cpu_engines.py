"""One engine in a process of its own: texts come in on a line, vectors and times go out.

`python cpu_engines.py NAME FOLDER THREADS`; each import is an engine's own, so that start-up and
memory are too, and any interpreter that has the peer can run it. A line is {"texts": [...],
"out": path or null}; the answer has wall and processor seconds, and bytes of memory.
"""

import asyncio
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

STARTED_S = time.time()
BATCH = 32

Encode = Callable[[list[str]], Any]


def main() -> int:
    """Bring the engine up, embed one text, then answer until the input ends."""
    name, folder, threads = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    encode = ENGINES[name](folder, threads)
    encode(["One short text."])
    first = {
        "ready_s": time.time() - STARTED_S,
        "ready_cpu_s": time.process_time(),
        "has_transformers": "transformers" in sys.modules,
    }
    print(json.dumps(first), flush=True)
    for line in sys.stdin:
        given = json.loads(line)
        wall, used = time.perf_counter(), time.process_time()
        vectors = encode(given["texts"])
        wall, used = time.perf_counter() - wall, time.process_time() - used
        if given["out"]:
            import numpy as np  # noqa: PLC0415

            np.save(given["out"], np.asarray(vectors, dtype=np.float32))
        answer = {"wall_s": wall, "cpu_s": used, **memory_bytes()}
        print(json.dumps(answer), flush=True)
    return 0


def _ours(dtype_name: str, backend: str = "torch") -> Callable[[Path, int], Encode]:
    """Do what a worker does: import, load, and give memory back between batches."""

    def make(folder: Path, threads: int) -> Encode:
        from sie_mcp.imports_kept import imports_kept  # noqa: PLC0415
        from sie_mcp.openmp import wait_shortly  # noqa: PLC0415

        wait_shortly(spins=backend == "torch")
        with imports_kept():
            from sie_mcp.engine.torch_parts import import_torch  # noqa: PLC0415

            import_torch()
            import torch  # noqa: PLC0415

            from evals.bench.cpu_encode import CPU, encode  # noqa: PLC0415
            from sie_mcp.adapters import create  # noqa: PLC0415
            from sie_mcp.adapters.checked import load_checked  # noqa: PLC0415
            from sie_mcp.engine.hardware import size_thread_pools  # noqa: PLC0415
            from sie_mcp.engine.heap import Heap, keep_freed  # noqa: PLC0415
            from sie_mcp.engine.shape_caches import bound_shape_caches  # noqa: PLC0415

        bound_shape_caches()
        keep_freed(size_thread_pools(threads))
        recipe = create.read_recipe("model", folder, None)
        dtype = getattr(torch, dtype_name)
        adapter = load_checked(recipe, device=CPU, dtype=dtype, backend=backend)
        _check_backend(adapter, backend)
        heap = Heap()

        def run(texts: list[str]) -> Any:
            vectors = encode(adapter, texts)
            heap.tidy(was_used=True)
            return vectors

        return run

    return make


def _check_backend(adapter: Any, backend: str) -> None:
    """End where something else would be measured than what the row says."""
    is_openvino = type(adapter._model.encoder).__name__ == "OpenvinoEncoder"
    assert is_openvino == (backend == "openvino"), f"not computed by {backend}"


def _sentence_transformers(folder: Path, threads: int) -> Encode:
    import torch  # noqa: PLC0415
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415

    torch.set_num_threads(threads)
    model = SentenceTransformer(str(folder), device="cpu")
    return lambda texts: model.encode(texts, batch_size=BATCH, show_progress_bar=False)


def _transformers(*, is_sorted: bool) -> Callable[[Path, int], Encode]:
    def make(folder: Path, threads: int) -> Encode:
        import torch  # noqa: PLC0415
        from transformers import AutoModel  # noqa: PLC0415

        torch.set_num_threads(threads)
        model = AutoModel.from_pretrained(str(folder), attn_implementation="sdpa").eval()

        def run(inputs: dict[str, Any]) -> Any:
            given = {name: torch.from_numpy(values) for name, values in inputs.items()}
            with torch.inference_mode():
                return model(**given).last_hidden_state.numpy()

        return _padded(folder, run, is_sorted=is_sorted)

    return make


def _infinity(folder: Path, threads: int) -> Encode:
    import torch  # noqa: PLC0415
    from infinity_emb import AsyncEmbeddingEngine, EngineArgs  # noqa: PLC0415

    torch.set_num_threads(threads)
    settings = EngineArgs(
        model_name_or_path=str(folder),
        engine="torch",
        device="cpu",
        dtype="float32",
        batch_size=BATCH,
        bettertransformer=False,
        model_warmup=False,
    )
    engine = AsyncEmbeddingEngine.from_args(settings)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(engine.astart())
    return lambda texts: loop.run_until_complete(engine.embed(texts))[0]


def _fastembed(folder: Path, threads: int) -> Encode:
    from fastembed import TextEmbedding  # noqa: PLC0415
    from fastembed.common.model_description import ModelSource, PoolingType  # noqa: PLC0415

    name = "bench/model"
    width = json.loads((folder / "config.json").read_text())["hidden_size"]
    TextEmbedding.add_custom_model(
        model=name,
        pooling=PoolingType.MEAN,
        normalization=True,
        sources=ModelSource(hf=name),
        dim=width,
        model_file="model.onnx",
    )
    model = TextEmbedding(model_name=name, specific_model_path=str(folder), threads=threads)
    return lambda texts: list(model.embed(texts, batch_size=BATCH))


def _openvino(precision: str) -> Callable[[Path, int], Encode]:
    def make(folder: Path, threads: int) -> Encode:
        import openvino  # noqa: PLC0415

        settings = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"}
        settings["INFERENCE_PRECISION_HINT"] = "f32" if precision == "int8" else precision
        file = "model-int8.xml" if precision == "int8" else "model.onnx"
        compiled = openvino.Core().compile_model(str(folder / file), "CPU", settings)
        return _padded(folder, lambda inputs: compiled(inputs)[0])

    return make


def _onnx_runtime(folder: Path, threads: int) -> Encode:
    import onnxruntime  # noqa: PLC0415

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), options)
    return _padded(folder, lambda inputs: session.run(None, inputs)[0])


def _padded(
    folder: Path, run: Callable[[dict[str, Any]], Any], *, is_sorted: bool = True
) -> Encode:
    """Pad; sorted by length, which is the best that a runtime of fixed blocks can be given."""
    import numpy as np  # noqa: PLC0415
    from tokenizers import Tokenizer  # noqa: PLC0415

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)

    def encode(texts: list[str]) -> Any:
        ids = [one.ids for one in tokenizer.encode_batch(texts)]
        order = list(range(len(ids)))
        if is_sorted:
            order.sort(key=lambda place: -len(ids[place]))
        rows: list[Any] = [None] * len(ids)
        for first in range(0, len(order), BATCH):
            places = order[first : first + BATCH]
            longest = max(len(ids[place]) for place in places)
            block = np.zeros((len(places), longest), dtype=np.int64)
            mask = np.zeros_like(block)
            for row, place in enumerate(places):
                block[row, : len(ids[place])] = ids[place]
                mask[row, : len(ids[place])] = 1
            inputs = {"input_ids": block, "attention_mask": mask, "token_type_ids": block * 0}
            states = run(inputs) * mask[:, :, None]
            means = states.sum(1) / mask.sum(1)[:, None]
            means /= np.linalg.norm(means, axis=1, keepdims=True)
            for row, place in enumerate(places):
                rows[place] = means[row]
        return np.stack(rows)

    return encode


def memory_bytes(process: str = "self") -> dict[str, int]:
    """Return what is resident now, of it no other process's, and the most that ever was."""
    found: dict[str, int] = {}
    for file in ("status", "smaps_rollup"):
        for line in (Path("/proc") / process / file).read_text().splitlines():
            name, _, value = line.partition(":")
            if value.endswith(" kB"):
                found[name] = int(value.split()[0]) * 1024
    return {
        "resident_bytes": found["VmRSS"],
        "private_bytes": found["Private_Clean"] + found["Private_Dirty"],
        "peak_bytes": found["VmHWM"],
    }


ENGINES: dict[str, Callable[[Path, int], Encode]] = {
    "ours float32": _ours("float32"),
    "ours bfloat16": _ours("bfloat16"),
    "ours int8": _ours("int8"),
    "ours openvino float32": _ours("float32", "openvino"),
    "ours openvino bfloat16": _ours("bfloat16", "openvino"),
    "ours openvino int8": _ours("int8", "openvino"),
    "sentence-transformers float32": _sentence_transformers,
    "transformers sdpa float32, arrival order": _transformers(is_sorted=False),
    "transformers sdpa float32, sorted": _transformers(is_sorted=True),
    "Infinity float32": _infinity,
    "FastEmbed float32": _fastembed,
    "ONNX Runtime float32": _onnx_runtime,
    "OpenVINO float32": _openvino("f32"),
    "OpenVINO bfloat16": _openvino("bf16"),
    "OpenVINO int8": _openvino("int8"),
}

if __name__ == "__main__":
    sys.exit(main())
