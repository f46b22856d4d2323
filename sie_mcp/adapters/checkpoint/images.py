"""What a checkpoint does to images before its tower reads them: the steps, checked against it."""

import importlib.util
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sie_mcp.adapters.checkpoint.files import Files
from sie_mcp.adapters.checkpoint.image_processors import FILE, choose, find_kind
from sie_mcp.adapters.image_rule import ImageRule, Size
from sie_mcp.adapters.model import Architecture, Vision
from sie_mcp.adapters.recipe import Recipe
from sie_mcp.errors import ModelLoadFailed

# Where newer libraries keep it, beside what other processors do.
_TOGETHER, _PART = "processor_config.json", "image_processor"


def with_images(files: Files, recipe: Recipe, row: Architecture) -> Recipe:
    """Add what becomes of an image, and the settings of its tower; say so where there is none.

    Raises:
        ModelLoadFailed: a setting that would give other vectors than the reference.
    """
    settings = _settings(Files(recipe.folder))
    reason = _why_not(recipe, row, settings)
    if reason:
        files.decide("inputs", "texts", reason)
        return recipe
    assert row.vision is not None
    config = {**row.vision.defaults, **_nested(recipe.config)}
    if "projection_dim" in recipe.config:
        config["projection_dim"] = recipe.config["projection_dim"]
    rule = _rule(settings, config, row.vision, str(recipe.config.get("model_type")))
    files.decide("inputs", "texts and images", FILE)
    files.decide("images", _in_words(rule), FILE)
    return replace(
        recipe,
        images=rule,
        vision_config=config,
        is_each_alone=row.vision.is_each_alone,
    )


def _settings(files: Files) -> dict[str, Any]:
    own = files.read(FILE)
    part = files.read(_TOGETHER).get(_PART)
    return own or (part if isinstance(part, dict) else {})


def _why_not(recipe: Recipe, row: Architecture, settings: Mapping[str, Any]) -> str:
    if row.vision is None or not _nested(recipe.config):
        return "config.json has no vision_config"
    if not settings:
        return f"no {FILE}, so images are not served"
    if importlib.util.find_spec("PIL") is None:
        return "Pillow is not installed, so images are not served: pip install 'sie-mcp[images]'"
    return ""


def _nested(config: Mapping[str, Any]) -> Mapping[str, Any]:
    older = config.get("vision_config_dict")
    nested = older if isinstance(older, dict) else config.get("vision_config")
    return nested if isinstance(nested, dict) else {}


def _rule(
    settings: Mapping[str, Any], config: Mapping[str, Any], vision: Vision, model_type: str
) -> ImageRule:
    kind = find_kind(settings, model_type)
    _check_tower(config)
    chosen = choose(settings, kind)
    if kind.has_shapes != vision.has_shapes:
        raise ModelLoadFailed(f"{FILE}: its image_processor_type is not for {model_type!r}")
    rule = replace(
        _with_colours(ImageRule(int(config["patch_size"])), chosen),
        num_extra=vision.num_extra,
        resample=_resample(chosen),
        has_colours_last=kind.has_shapes,
    )
    if kind.has_shapes:
        return _with_shapes(rule, chosen)
    return _with_sizes(rule, chosen, config)


def _check_tower(config: Mapping[str, Any]) -> None:
    if config.get("num_channels", 3) != 3:
        raise ModelLoadFailed("config.json: vision_config.num_channels must be 3")
    if not config.get("vision_use_head", True):
        raise ModelLoadFailed("config.json: vision_use_head false is not supported")
    for key in ("patch_size", "image_size", "num_patches"):
        if key in config and not isinstance(config[key], int):
            raise ModelLoadFailed(f"config.json: vision_config.{key} must be one whole number")


def _resample(chosen: Mapping[str, Any]) -> int:
    value = chosen["resample"]
    if not isinstance(value, int) or not 0 <= value <= 5:
        raise ModelLoadFailed(f"{FILE}: resample {value!r} is no filter; known: 0 to 5")
    return value


def _with_colours(rule: ImageRule, chosen: Mapping[str, Any]) -> ImageRule:
    """Join rescaling and normalising to one product and one sum."""
    factor = float(chosen["rescale_factor"]) if chosen["do_rescale"] else 1.0
    mean, std = [0.0] * 3, [1.0] * 3
    if chosen["do_normalize"]:
        mean, std = (_three(chosen, key) for key in ("image_mean", "image_std"))
    if 0.0 in std:
        raise ModelLoadFailed(f"{FILE}: image_std holds a zero")
    scale = [factor / one for one in std]
    shift = [-one / two for one, two in zip(mean, std, strict=True)]
    return replace(rule, scale=(scale[0], scale[1], scale[2]), shift=(shift[0], shift[1], shift[2]))


def _three(chosen: Mapping[str, Any], key: str) -> list[float]:
    value = chosen[key]
    values = [value] * 3 if isinstance(value, int | float) else value
    if not isinstance(values, list) or len(values) != 3:
        raise ModelLoadFailed(f"{FILE}: {key} must be three numbers, not {value!r}")
    return [float(one) for one in values]


def _with_shapes(rule: ImageRule, chosen: Mapping[str, Any]) -> ImageRule:
    if chosen["patch_size"] != rule.patch_size:
        raise ModelLoadFailed(
            f"{FILE}: patch_size {chosen['patch_size']!r} is not config.json's {rule.patch_size}"
        )
    if not chosen["do_resize"] or chosen["do_center_crop"]:
        raise ModelLoadFailed(f"{FILE}: images of any shape need do_resize and no do_center_crop")
    most = chosen["max_num_patches"]
    if not isinstance(most, int) or most < 1:
        raise ModelLoadFailed(f"{FILE}: max_num_patches {most!r} is no whole number over 0")
    return replace(rule, max_patches=most)


def _with_sizes(rule: ImageRule, chosen: Mapping[str, Any], config: Mapping[str, Any]) -> ImageRule:
    """Add how a picture comes to the one size that the tower reads.

    Raises:
        ModelLoadFailed: it would not, whatever the picture.
    """
    wanted = int(config["image_size"])
    if chosen["do_resize"]:
        size = chosen["size"]
        if isinstance(size, int):
            is_square = bool(chosen.get("default_to_square"))
            size = {"height": size, "width": size} if is_square else {"shortest_edge": size}
        if set(size) == {"shortest_edge"}:
            rule = replace(rule, shortest_edge=int(size["shortest_edge"]))
        else:
            rule = replace(rule, size=_size(size, "size"))
    if chosen["do_center_crop"]:
        crop = chosen["crop_size"]
        crop = {"height": crop, "width": crop} if isinstance(crop, int) else crop
        rule = replace(rule, crop=_size(crop, "crop_size"))
    if (rule.crop or rule.size) != (wanted, wanted):
        raise ModelLoadFailed(
            f"{FILE}: images do not come to the {wanted} x {wanted} pixels of config.json's "
            "image_size"
        )
    return rule


def _size(value: Any, key: str) -> Size:
    if not isinstance(value, dict) or set(value) != {"height", "width"}:
        raise ModelLoadFailed(f"{FILE}: {key} {value!r} is not supported; known: height and width")
    return int(value["height"]), int(value["width"])


def _in_words(rule: ImageRule) -> str:
    if rule.max_patches:
        return f"at most {rule.max_patches} patches of {rule.patch_size} pixels, shape kept"
    steps = []
    if rule.shortest_edge:
        steps.append(f"shorter side to {rule.shortest_edge}")
    if rule.size:
        steps.append("resized to {} x {}".format(*rule.size))
    if rule.crop:
        steps.append("middle {} x {}".format(*rule.crop))
    return f"{', '.join(steps)}, patches of {rule.patch_size} pixels"
