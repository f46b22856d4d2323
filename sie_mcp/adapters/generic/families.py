"""The families that are served as transformers runs them, by the model_type of config.json."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Family:
    """How the library's class is called, and what is asked of it.

    Attributes:
        task: It finds objects of the caller's labels, writes a text, or compares pages with texts.
        class_name: In transformers.
        threshold: Over which an object scores, where nothing is said: the library's default.
        is_square: Boxes are shares of the longer side: the image was filled up to a square.
        asks: What can be asked of it, by `instruction`; the first where nothing is. Empty: any
            text, or none.
        packages: What its image processor imports beside Pillow.
        attention: The library's, for all of it, or "" and parts of config.json -> theirs.
    """

    task: Literal["detection", "description", "pages"]
    class_name: str
    threshold: float = 0.0
    is_square: bool = False
    asks: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    attention: str | Mapping[str, str] = "sdpa"


# Its texts are read under masks of true and false, which eager attention would add as numbers.
_DINO = {"": "eager", "text_config": "sdpa", "backbone_config": "sdpa"}
FAMILIES: dict[str, Family] = {
    "owlvit": Family("detection", "OwlViTForObjectDetection", 0.1),
    "owlv2": Family(
        "detection", "Owlv2ForObjectDetection", 0.1, is_square=True, packages=("scipy",)
    ),
    "grounding-dino": Family("detection", "GroundingDinoForObjectDetection", 0.25, attention=_DINO),
    "blip": Family("description", "BlipForConditionalGeneration", attention="eager"),
    "vision-encoder-decoder": Family(
        # Its halves are of any family.
        "description",
        "VisionEncoderDecoderModel",
        attention="eager",
    ),
    "florence2": Family(
        "description",
        "Florence2ForConditionalGeneration",
        asks=("<CAPTION>", "<DETAILED_CAPTION>", "<MORE_DETAILED_CAPTION>", "<OCR>"),
    ),
    "colpali": Family("pages", "ColPaliForRetrieval"),
    # Of Qwen2-VL or of Qwen2.5-VL.
    "colqwen2": Family("pages", "ColQwen2ForRetrieval"),
    "colmodernvbert": Family("pages", "ColModernVBertForRetrieval"),
}
