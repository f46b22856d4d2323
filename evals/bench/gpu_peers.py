"""What others do with the same texts on the same card: transformers, sentence-transformers."""

import importlib.util
from collections.abc import Callable

import torch
import transformers

from evals.bench.shapes import config_of


def transformers_sdpa(name: str, work: list[int], size: int) -> Callable[[], None]:
    """Return a pass in float16 with SDPA, sorted by length, mean pooling included."""
    model = _model(name)
    ordered = sorted(work, reverse=True)

    def run() -> None:
        with torch.inference_mode():
            for start in range(0, len(ordered), size):
                part = torch.tensor(ordered[start : start + size])
                mask = torch.arange(int(part.max()))[None] < part[:, None]
                ids = torch.randint(0, 30_000, mask.shape).cuda(non_blocking=True)
                mask = mask.cuda(non_blocking=True)
                hidden = model(input_ids=ids, attention_mask=mask).last_hidden_state
                kept = mask[..., None]
                ((hidden * kept).sum(1) / kept.sum(1)).cpu()

    return run


def transformers_latency(name: str, num_tokens: int) -> Callable[[], None]:
    """Return a pass of one text."""
    model = _model(name)

    def run() -> None:
        with torch.inference_mode():
            ids = torch.randint(0, 30_000, (1, num_tokens)).cuda()
            model(input_ids=ids).last_hidden_state.mean(1).cpu()

    return run


def has_sentence_transformers() -> bool:
    """Whether it is installed; what it does with ids is what transformers does, and more."""
    return importlib.util.find_spec("sentence_transformers") is not None


def _model(name: str) -> torch.nn.Module:
    settings = {key: value for key, value in config_of(name).items() if key != "model_type"}
    model = transformers.BertModel(
        transformers.BertConfig(**settings, attn_implementation="sdpa"), add_pooling_layer=False
    )
    return model.to("cuda", torch.float16).eval()
