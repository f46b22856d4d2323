"""Models of two towers, for texts and images: rows of the table of parity, for their texts."""

from typing import Any

from tests.parity.row import SMALL, VOCAB_SIZE, Dialect, Row

# Biases and positions must matter, and the tower for images must be there to be left alone.
_SIZES = {**SMALL, "max_position_embeddings": 77, "intermediate_size": 48}
VISION = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 8,
    "patch_size": 4,
}
_CLIP = {**_SIZES, "initializer_factor": 3.0, "eos_token_id": VOCAB_SIZE - 1}
_SIGLIP = {**_SIZES, "max_position_embeddings": 64}


def _both(text: dict[str, Any], **config: Any) -> dict[str, Any]:
    return {"text_config": text, "vision_config": VISION, **config}


def _clip(name: str, kind: str, config: dict[str, Any], **changes: Any) -> Row:
    return Row(
        name=name,
        config_class=f"{kind.partition('Model')[0]}Config",
        config=config,
        classes={"dense": kind},
        tokenizer="clip",
        pooling="",
        **changes,
    )


def _siglip(name: str, kind: str, config: dict[str, Any], **changes: Any) -> Row:
    return Row(
        name=name,
        config_class=f"{kind.partition('Model')[0]}Config",
        config=config,
        classes={"dense": kind},
        tokenizer="eos",
        pooling="",
        fills_up=True,
        **changes,
    )


TOWERS: tuple[Row, ...] = (
    _clip("clip", "CLIPModel", _both(_CLIP, projection_dim=24)),
    # As OpenAI's own files are: the id says nothing, the older key has the settings.
    _clip(
        "clip-legacy",
        "CLIPModel",
        _both({**_CLIP, "eos_token_id": 2, "hidden_act": "gelu"}, projection_dim=40),
        dialect=Dialect(
            config={
                "text_config": {"hidden_size": 8, "layer_norm_eps": 0.5},
                "text_config_dict": {**_CLIP, "eos_token_id": 2, "hidden_act": "gelu"},
            }
        ),
    ),
    _clip(
        "clip_text_model",
        "CLIPTextModelWithProjection",
        {**_CLIP, "projection_dim": 24},
    ),
    _siglip("siglip", "SiglipModel", _both(_SIGLIP)),
    _siglip("siglip_text_model", "SiglipTextModel", {**_SIGLIP, "projection_size": 24}),
    _siglip(
        "siglip2",
        "Siglip2Model",
        {
            "text_config": {**_SIGLIP, "hidden_act": "relu"},
            "vision_config": {**VISION, "num_patches": 16},
        },
    ),
    _siglip("siglip2_text_model", "Siglip2TextModel", _SIGLIP),
)
