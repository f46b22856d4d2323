"""One engine in a process of its own: texts come in on a line, vectors and times go out.

`python cpu_engines.py NAME FOLDER THREADS`; each import is an engine's own, so that start-up and
memory are too, and any interpreter that has the peer can run it. A line is {"texts": [...],
"out": path or null}; the answer has wall and processor seconds, and bytes of memory.
"""

import json
import os
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
    first = {"ready_s": time.time() - STARTED_S, "has_transformers": "transformers" in sys.modules}
    print(json.dumps(first), flush=True)
    for line in sys.stdin:
        given = json.loads(line)
        wall, used = time.perf_counter(), time.process_time()
        vectors = encode(given["texts"])
        wall, used = time.perf_counter() - wall, time.process_time() - used
        if given["out"]:
            import numpy as np  # noqa: PLC0415

            np.save(given["out"], np.asarray(vectors, dtype=np.float32))
        answer = {"wall_s": wall, "cpu_s": used, "resident_bytes": _resident_bytes()}
        print(json.dumps(answer), flush=True)
    return 0


def _ours(dtype_name: str) -> Callable[[Path, int], Encode]:
    def make(folder: Path, threads: int) -> Encode:
        import torch  # noqa: PLC0415

        from evals.bench.cpu_encode import CPU, encode  # noqa: PLC0415
        from sie_mcp.adapters import create  # noqa: PLC0415
        from sie_mcp.adapters.checked import load_checked  # noqa: PLC0415
        from sie_mcp.engine.hardware import size_thread_pools  # noqa: PLC0415
        from sie_mcp.engine.shape_caches import bound_shape_caches  # noqa: PLC0415

        bound_shape_caches()
        size_thread_pools(threads)
        recipe = create.read_recipe("model", folder, None)
        adapter = load_checked(recipe, device=CPU, dtype=getattr(torch, dtype_name))
        return lambda texts: encode(adapter, texts)

    return make


def _sentence_transformers(folder: Path, threads: int) -> Encode:
    import torch  # noqa: PLC0415
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415

    torch.set_num_threads(threads)
    model = SentenceTransformer(str(folder), device="cpu")
    return lambda texts: model.encode(texts, batch_size=BATCH, show_progress_bar=False)


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


def _padded(folder: Path, run: Callable[[dict[str, Any]], Any]) -> Encode:
    """Sort by length and pad, which is the best that a runtime of fixed blocks can be given."""
    import numpy as np  # noqa: PLC0415
    from tokenizers import Tokenizer  # noqa: PLC0415

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)

    def encode(texts: list[str]) -> Any:
        ids = [one.ids for one in tokenizer.encode_batch(texts)]
        order = sorted(range(len(ids)), key=lambda place: -len(ids[place]))
        rows: list[Any] = [None] * len(ids)
        for first in range(0, len(order), BATCH):
            places = order[first : first + BATCH]
            longest = len(ids[places[0]])
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


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


ENGINES: dict[str, Callable[[Path, int], Encode]] = {
    "ours float32": _ours("float32"),
    "ours bfloat16": _ours("bfloat16"),
    "ours int8": _ours("int8"),
    "sentence-transformers float32": _sentence_transformers,
    "ONNX Runtime float32": _onnx_runtime,
    "OpenVINO float32": _openvino("f32"),
    "OpenVINO bfloat16": _openvino("bf16"),
    "OpenVINO int8": _openvino("int8"),
}

if __name__ == "__main__":
    sys.exit(main())
