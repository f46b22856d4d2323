"""What transformers does with the same texts on the same card."""

import importlib.util
from collections.abc import Callable

import torch
import transformers

from evals.bench.shapes import config_of

# The larger batch is the faster one in a short pass, the smaller one wastes less padding.
SIZES = (64, 256)
SDPA, FLASH = "sdpa", "flash_attention_2"
CUDA = torch.device("cuda")
Run = Callable[[], None]


def throughput_peers(
    name: str, work: list[int], device: torch.device = CUDA
) -> dict[str, list[Run]]:
    """Return passes of transformers in float16 by what they are, one for each size of batch.

    "transformers" sorts by length; "unsorted" takes texts as they come; "flash_attn", where that
    is installed, sorts and leaves padding to it.
    """
    ordered = sorted(work, reverse=True)
    ways = {"transformers": (ordered, SDPA), "unsorted": (work, SDPA)}
    if importlib.util.find_spec("flash_attn") is not None:
        ways["flash_attn"] = (ordered, FLASH)
    models = {kind: _model(name, device, kind) for kind in {kind for _, kind in ways.values()}}
    return {
        way: [_pass(models[kind], lengths, size, device) for size in SIZES]
        for way, (lengths, kind) in ways.items()
    }


def _pass(model: torch.nn.Module, lengths: list[int], size: int, device: torch.device) -> Run:
    """Return a pass over texts of these lengths, mean pooling included."""

    def run() -> None:
        with torch.inference_mode():
            for start in range(0, len(lengths), size):
                part = torch.tensor(lengths[start : start + size])
                mask = torch.arange(int(part.max()))[None] < part[:, None]
                ids = torch.randint(0, 30_000, mask.shape).to(device, non_blocking=True)
                mask = mask.to(device, non_blocking=True)
                hidden = model(input_ids=ids, attention_mask=mask).last_hidden_state
                kept = mask[..., None]
                ((hidden * kept).sum(1) / kept.sum(1)).cpu()

    return run


def transformers_latency(name: str, num_tokens: int) -> Run:
    """Return a pass of one text."""
    model = _model(name)

    def run() -> None:
        with torch.inference_mode():
            ids = torch.randint(0, 30_000, (1, num_tokens)).cuda()
            model(input_ids=ids).last_hidden_state.mean(1).cpu()

    return run


def _model(name: str, device: torch.device = CUDA, attention: str = SDPA) -> torch.nn.Module:
    settings = {key: value for key, value in config_of(name).items() if key != "model_type"}
    model = transformers.BertModel(
        transformers.BertConfig(**settings, attn_implementation=attention),
        add_pooling_layer=False,
    )
    return model.to(device, torch.float16).eval()
