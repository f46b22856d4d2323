"""Tiny random checkpoints of models that compare texts with images of pages, as transformers saves
them.
"""

from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil

from tests.parity.seeing import save_random, wordpiece

DIMS = 16
_TEXT = {
    "hidden_size": 32,
    "intermediate_size": 37,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
}
_VISION = {
    "hidden_size": 32,
    "intermediate_size": 37,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
}


def _colpali() -> Any:
    tokenizer = wordpiece(extra_special_tokens={"image_token": "<image>"})
    made = SiglipImageProcessorPil(size={"height": 32, "width": 32})
    made.image_seq_length = 16
    processor = transformers.ColPaliProcessor(made, tokenizer)
    image_id = tokenizer.convert_tokens_to_ids("<image>")
    text = {**_TEXT, "model_type": "gemma", "head_dim": 8, "vocab_size": len(tokenizer)}
    vision = {**_VISION, "model_type": "siglip_vision_model", "image_size": 32, "patch_size": 8}
    vlm = transformers.PaliGemmaConfig(
        text_config=text,
        vision_config={**vision, "projection_dim": 32, "vision_use_head": False},
        image_token_id=image_id,
        projection_dim=32,
    )
    config = transformers.ColPaliConfig(vlm_config=vlm, embedding_dim=DIMS)
    return transformers.ColPaliForRetrieval(config), processor


def _colqwen(kind: str) -> Any:
    signs = {"image_token": "<|image_pad|>", "vision_start_token": "<|vision_start|>"}
    signs |= {"vision_end_token": "<|vision_end|>"}
    tokenizer = wordpiece(extra_special_tokens=signs)
    made = Qwen2VLImageProcessorPil(
        patch_size=8, size={"shortest_edge": 16 * 16, "longest_edge": 64 * 64}
    )
    processor = transformers.ColQwen2Processor(made, tokenizer)
    ids = {f"{n}_id": tokenizer.convert_tokens_to_ids(sign) for n, sign in signs.items()}
    rope = {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 10_000.0}
    text = {**_TEXT, "vocab_size": len(tokenizer), "rope_parameters": rope}
    text |= {"bos_token_id": 101, "eos_token_id": 102}
    if kind == "qwen2_vl":
        vision = {"embed_dim": 32, "hidden_size": 32, "mlp_ratio": 1}
    else:
        vision = {"hidden_size": 32, "intermediate_size": 37, "out_hidden_size": 32}
        vision |= {"window_size": 32, "fullatt_block_indexes": [1]}
    vision |= {"depth": 2, "num_heads": 4, "patch_size": 8}
    name = {"qwen2_vl": "Qwen2VLConfig", "qwen2_5_vl": "Qwen2_5_VLConfig"}[kind]
    vlm = getattr(transformers, name)(text_config=text, vision_config=vision, **ids)
    config = transformers.ColQwen2Config(vlm_config=vlm, embedding_dim=DIMS)
    return transformers.ColQwen2ForRetrieval(config), processor


def _colmodernvbert() -> Any:
    signs = ["<fake_token_around_image>", "<image>", "<end_of_utterance>", "<global-img>"]
    signs += [f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7)]
    tokenizer = wordpiece()
    tokenizer.add_special_tokens({"additional_special_tokens": signs})
    made = Idefics3ImageProcessorPil(
        size={"longest_edge": 64}, max_image_size={"longest_edge": 32}, do_image_splitting=True
    )
    processor = transformers.ColModernVBertProcessor(made, tokenizer, image_seq_len=4)
    text = {**_TEXT, "vocab_size": len(tokenizer), "local_attention": 16}
    text.pop("num_key_value_heads")
    text |= {"bos_token_id": 101, "eos_token_id": 102, "cls_token_id": 101, "sep_token_id": 102}
    vision = {**_VISION, "image_size": 32, "patch_size": 8}
    vlm = transformers.ModernVBertConfig(
        text_config=text,
        vision_config=vision,
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        pixel_shuffle_factor=2,
    )
    config = transformers.ColModernVBertConfig(vlm_config=vlm, embedding_dim=DIMS)
    return transformers.ColModernVBertForRetrieval(config), processor


_KINDS = {
    "colpali": _colpali,
    "colqwen2": lambda: _colqwen("qwen2_vl"),
    "colqwen2.5": lambda: _colqwen("qwen2_5_vl"),
    "colmodernvbert": _colmodernvbert,
}
PAGE_MODELS = tuple(_KINDS)


def save_page_model(kind: str, folder: Path, seed: int = 0) -> tuple[Any, Any]:
    """Save a checkpoint; return the reference's model and processor."""
    torch.manual_seed(seed)
    return save_random(*_KINDS[kind](), folder)
