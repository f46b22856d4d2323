"""Tiny random checkpoints of models that look at images, as transformers saves them."""

from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers.models.blip.image_processing_pil_blip import BlipImageProcessorPil
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.donut.image_processing_pil_donut import DonutImageProcessorPil
from transformers.models.grounding_dino.image_processing_pil_grounding_dino import (
    GroundingDinoImageProcessorPil,
)
from transformers.models.owlv2.image_processing_pil_owlv2 import Owlv2ImageProcessorPil
from transformers.models.owlvit.image_processing_pil_owlvit import OwlViTImageProcessorPil
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

LABELS = ["red shoe", "bag", "a coffee cup"]
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_SMALL = {
    "hidden_size": 32,
    "intermediate_size": 37,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
}


def wordpiece(**more: Any) -> transformers.PreTrainedTokenizerFast:
    """Return a tokenizer of letters, its signs where BERT's vocabulary has them."""
    words = {f"[unused{place}]": place for place in range(1100)}
    places = {"[PAD]": 0, "[UNK]": 100, "[CLS]": 101, "[SEP]": 102, ".": 1012, "?": 1029}
    places |= {one: 200 + place for place, one in enumerate(_LETTERS)}
    places |= {f"##{one}": 300 + place for place, one in enumerate(_LETTERS)}
    by_place = {place: word for word, place in words.items()} | {v: k for k, v in places.items()}
    vocabulary = {word: place for place, word in by_place.items()}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 101), ("[SEP]", 102)]
    )
    names = {f"{one}_token": f"[{one.upper()}]" for one in ("pad", "unk", "cls", "sep")}
    own = {"bos_token": "[CLS]", "eos_token": "[SEP]"}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names, **own, **more)


def _owl(kind: str) -> Any:
    text = {**_SMALL, "vocab_size": 1100, "max_position_embeddings": 16, "pad_token_id": 0}
    vision = {**_SMALL, "image_size": 32, "patch_size": 8}
    name = {"owlvit": "OwlViT", "owlv2": "Owlv2"}[kind]
    config = getattr(transformers, f"{name}Config")(
        text_config=text, vision_config=vision, projection_dim=32
    )
    model = getattr(transformers, f"{name}ForObjectDetection")(config)
    size = {"height": 32, "width": 32}
    made = {"owlvit": OwlViTImageProcessorPil, "owlv2": Owlv2ImageProcessorPil}[kind](size=size)
    processor = getattr(transformers, f"{name}Processor")(made, wordpiece(model_max_length=16))
    return model, processor


def _grounding_dino() -> Any:
    backbone = transformers.SwinConfig(
        embed_dim=8, depths=[1, 1, 1, 1], num_heads=[1, 1, 2, 2], window_size=4, image_size=64,
        out_features=["stage2", "stage3", "stage4"], out_indices=[2, 3, 4],
    )  # fmt: skip
    text = {**_SMALL, "model_type": "bert", "vocab_size": 1100, "max_position_embeddings": 256}
    config = transformers.GroundingDinoConfig(
        backbone_config=backbone, text_config=text, d_model=32, encoder_layers=2, decoder_layers=2,
        encoder_ffn_dim=32, decoder_ffn_dim=32, encoder_attention_heads=4,
        decoder_attention_heads=4, num_queries=20, num_feature_levels=3, encoder_n_points=2,
        decoder_n_points=2, use_pretrained_backbone=False,
    )  # fmt: skip
    made = GroundingDinoImageProcessorPil(size={"shortest_edge": 48, "longest_edge": 96})
    processor = transformers.GroundingDinoProcessor(made, wordpiece())
    return transformers.GroundingDinoForObjectDetection(config), processor


def _blip() -> Any:
    text = {**_SMALL, "vocab_size": 1100, "bos_token_id": 101, "sep_token_id": 102}
    text |= {"eos_token_id": 102, "pad_token_id": 0, "max_position_embeddings": 64}
    config = transformers.BlipConfig(
        text_config={**text, "encoder_hidden_size": 32},
        vision_config={**_SMALL, "image_size": 32, "patch_size": 8},
        projection_dim=32,
    )
    made = BlipImageProcessorPil(size={"height": 32, "width": 32})
    processor = transformers.BlipProcessor(made, wordpiece())
    return transformers.BlipForConditionalGeneration(config), processor


def _trocr() -> Any:
    encoder = transformers.ViTConfig(**_SMALL, image_size=32, patch_size=8)
    decoder = transformers.TrOCRConfig(
        vocab_size=1100, d_model=32, decoder_layers=2, decoder_attention_heads=4,
        decoder_ffn_dim=37, max_position_embeddings=64, cross_attention_hidden_size=32,
        bos_token_id=101, eos_token_id=102, pad_token_id=0, decoder_start_token_id=101,
    )  # fmt: skip
    config = transformers.VisionEncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder)
    config.decoder_start_token_id, config.pad_token_id, config.eos_token_id = 101, 0, 102
    model = transformers.VisionEncoderDecoderModel(config)
    made = ViTImageProcessorPil(size={"height": 32, "width": 32})
    return model, transformers.TrOCRProcessor(made, wordpiece())


def _donut() -> Any:
    encoder = transformers.DonutSwinConfig(
        image_size=[64, 48], patch_size=4, embed_dim=16, depths=[1, 1], num_heads=[1, 2],
        window_size=4,
    )  # fmt: skip
    tokenizer = wordpiece(extra_special_tokens={"task_token": "<s_read>"})
    decoder = transformers.MBartConfig(
        vocab_size=len(tokenizer), d_model=encoder.hidden_size, decoder_layers=2,
        decoder_attention_heads=4, decoder_ffn_dim=37, max_position_embeddings=64,
        bos_token_id=101, eos_token_id=102, pad_token_id=0, decoder_start_token_id=101,
        scale_embedding=True, add_final_layer_norm=True, tie_word_embeddings=False,
    )  # fmt: skip
    config = transformers.VisionEncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder)
    config.decoder_start_token_id, config.pad_token_id, config.eos_token_id = 101, 0, 102
    model = transformers.VisionEncoderDecoderModel(config)
    made = DonutImageProcessorPil(size={"height": 64, "width": 48}, do_align_long_axis=False)
    return model, transformers.DonutProcessor(made, tokenizer)


def _florence() -> Any:
    vision = {
        "embed_dim": [8, 8, 16, 16], "num_heads": [2, 2, 2, 2], "num_groups": [2, 2, 2, 2],
        "depths": [1, 1, 1, 1], "projection_dim": 32, "window_size": 4,
        "patch_size": [7, 3, 3, 3], "max_position_embeddings": 50,
    }  # fmt: skip
    text = {
        "model_type": "bart", "vocab_size": 1100, "d_model": 32, "encoder_layers": 1,
        "decoder_layers": 1, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
        "encoder_ffn_dim": 37, "decoder_ffn_dim": 37, "max_position_embeddings": 256,
        "bos_token_id": 101, "eos_token_id": 102, "pad_token_id": 0,
        "decoder_start_token_id": 205, "forced_eos_token_id": None, "tie_word_embeddings": False,
    }  # fmt: skip
    tokenizer = wordpiece(extra_special_tokens={"image_token": "<image>"})
    text["vocab_size"] = len(tokenizer)
    config = transformers.Florence2Config(
        vision_config=vision, text_config=text, image_token_id=len(tokenizer) - 1,
        bos_token_id=101, eos_token_id=102, pad_token_id=0,
    )  # fmt: skip
    size = {"height": 64, "width": 64}
    made = CLIPImageProcessorPil(size=size, do_center_crop=False, image_seq_length=5)
    processor = transformers.Florence2Processor(made, tokenizer, num_additional_image_tokens=1)
    return transformers.Florence2ForConditionalGeneration(config), processor


_KINDS = {
    "owlvit": lambda: _owl("owlvit"),
    "owlv2": lambda: _owl("owlv2"),
    "grounding-dino": _grounding_dino,
    "blip": _blip,
    "trocr": _trocr,
    "donut": _donut,
    "florence2": _florence,
}
DETECTORS = ("owlvit", "owlv2", "grounding-dino")
WRITERS = ("blip", "trocr", "donut", "florence2")


def save_seeing(kind: str, folder: Path, seed: int = 0) -> tuple[Any, Any]:
    """Save a checkpoint; return the reference's model and processor."""
    torch.manual_seed(seed)
    return save_random(*_KINDS[kind](), folder)


def save_random(model: Any, processor: Any, folder: Path) -> tuple[Any, Any]:
    """Save a model with weights wide enough to tell its inputs apart, and its processor."""
    with torch.no_grad():
        for name, one in model.named_parameters():
            if one.dim() > 1 and "position" not in name:
                one.copy_(torch.randn_like(one) * 0.15)
    model = model.eval()
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return model, processor
