"""Image processors by their name in preprocessor_config.json: defaults, and the keys that count.

Those of transformers for CLIP, SigLIP and SigLIP 2. A key that is not known is refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sie_mcp.errors import ModelLoadFailed

FILE = "preprocessor_config.json"
_OPENAI_MEAN, _OPENAI_STD = (
    [0.48145466, 0.4578275, 0.40821073],
    [0.26862954, 0.26130258, 0.27577711],
)
_SHORT_224, _SQUARE_224 = {"shortest_edge": 224}, {"height": 224, "width": 224}


@dataclass(frozen=True, slots=True)
class Kind:
    """A class of image processors: what it does where the file is silent."""

    defaults: Mapping[str, Any]
    has_shapes: bool = False


_HALF = [0.5, 0.5, 0.5]
_SIGLIP = {"size": _SQUARE_224, "resample": 3, "image_mean": _HALF, "image_std": _HALF}
_KINDS = {
    "CLIPImageProcessor": Kind(
        {
            "size": _SHORT_224,
            "resample": 3,
            "do_center_crop": True,
            "crop_size": _SQUARE_224,
            "image_mean": _OPENAI_MEAN,
            "image_std": _OPENAI_STD,
        }
    ),
    "SiglipImageProcessor": Kind(_SIGLIP),
    "Siglip2ImageProcessor": Kind(
        {**_SIGLIP, "resample": 2, "patch_size": 16, "max_num_patches": 256}, has_shapes=True
    ),
}
_BY_MODEL = {
    "clip": "CLIPImageProcessor",
    "siglip": "SiglipImageProcessor",
    "siglip2": "Siglip2ImageProcessor",
}
_ALL_DO = {
    "do_resize": True,
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "do_center_crop": False,
}
_READ = {*_ALL_DO, "size", "resample", "crop_size", "image_mean", "image_std", "do_convert_rgb"}
_SHAPED = {"patch_size", "max_num_patches"}
# Who wrote the file, and what only that library's code looks at.
_SILENT = {
    "image_processor_type",
    "feature_extractor_type",
    "processor_class",
    "data_format",
    "default_to_square",
    "_valid_processor_keys",
}


def find_kind(settings: Mapping[str, Any], model_type: str) -> Kind:
    """Return the class of image processors that the file names, else the model's usual one.

    Raises:
        ModelLoadFailed: one that is not known.
    """
    name = settings.get("image_processor_type") or settings.get("feature_extractor_type")
    own = _BY_MODEL.get(model_type, model_type) if name is None else str(name)
    for ending in ("Fast", "Pil"):
        own = own.removesuffix(ending)
    own = own.replace("FeatureExtractor", "ImageProcessor")
    if own not in _KINDS:
        raise ModelLoadFailed(
            f"{FILE}: image_processor_type {name!r} is not supported; supported: "
            f"{', '.join(_KINDS)}"
        )
    return _KINDS[own]


def choose(settings: Mapping[str, Any], kind: Kind) -> dict[str, Any]:
    """Return all settings: the file's, over the class's defaults.

    Raises:
        ModelLoadFailed: a key that is not known.
    """
    _check_keys(settings, kind)
    given = {key: value for key, value in settings.items() if value is not None}
    return {**_ALL_DO, **kind.defaults, **given}


def _check_keys(settings: Mapping[str, Any], kind: Kind) -> None:
    known = _READ | (_SHAPED if kind.has_shapes else set())
    for key, value in settings.items():
        # A step that is off, and a setting that is left open, change nothing.
        is_off = value is None or (value is False and key.startswith("do_"))
        if key not in known and key not in _SILENT and not is_off:
            raise ModelLoadFailed(f"{FILE}: {key!r} is not supported; known: {_join(known)}")


def _join(names: set[str]) -> str:
    return ", ".join(sorted(names))
