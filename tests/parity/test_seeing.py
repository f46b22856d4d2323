"""Models that look at images against transformers' own processors and classes."""

from typing import Any

import numpy as np
import pytest
import torch

from sie_mcp import wire
from sie_mcp.adapters.pictures import open_picture
from tests.parity.seeing import DETECTORS, LABELS, WRITERS, save_seeing
from tests.picture_files import PHOTOS, noise, saved
from tests.running import load, run

FILES = (*PHOTOS[:2], saved(noise(31, 90)), saved(noise(64, 64, seed=2)), saved(noise(90, 31)))
TOLERANCE = 1e-4


def asked(files: Any, labels: Any = None, instruction: Any = None, **options: Any) -> Any:
    params = {"labels": labels, "instruction": instruction, "options": options}
    items = [{"image": one} for one in files]
    return wire.ExtractRequest.model_validate({"items": items, "params": params})


def expected_objects(model: Any, processor: Any, file: bytes, threshold: float) -> Any:
    """Return the reference's scores, boxes within the picture and names, the surest first."""
    picture = open_picture(file)
    size = [(picture.height, picture.width)]
    inputs = processor(images=[picture], text=[LABELS], return_tensors="pt")
    with torch.no_grad():
        outputs = model(**inputs)
    names = {} if "grounding" in type(model).__name__.lower() else {"text_labels": [LABELS]}
    found = processor.post_process_grounded_object_detection(
        outputs, threshold=threshold, target_sizes=size, **names
    )[0]
    order = torch.argsort(-found["scores"], stable=True)
    boxes = found["boxes"][order].numpy().clip(0, [picture.width, picture.height] * 2)
    return found["scores"][order].numpy(), boxes, [found["text_labels"][at] for at in order]


@pytest.mark.parametrize("kind", DETECTORS)
def test_objects_are_those_of_the_reference_in_any_batch(kind, tmp_path):
    model, processor = save_seeing(kind, tmp_path)
    adapter = load(tmp_path)
    threshold = 0.3
    together = run(adapter, asked(FILES, LABELS, threshold=threshold)).items
    turned = run(adapter, asked(FILES[::-1], LABELS, threshold=threshold)).items[::-1]
    num_found = 0
    for file, one, other in zip(FILES, together, turned, strict=True):
        alone = run(adapter, asked([file], LABELS, threshold=threshold)).items[0]
        scores, boxes, names = expected_objects(model, processor, file, threshold)
        for found in (one, other, alone):
            assert len(found.objects) == min(len(scores), 300)
            assert [each.score for each in found.objects] == pytest.approx(scores, abs=TOLERANCE)
            own = np.array([each.bbox for each in found.objects]).reshape(-1, 4)
            assert np.abs(own - boxes).max(initial=0) <= 90 * TOLERANCE
            assert_named(kind, [each.label for each in found.objects], names)
        num_found += len(scores)
    assert num_found > 5


def assert_named(kind: str, found: list[str], names: list[str]) -> None:
    """Hold labels against those of the reference: it may name several, or a part of one."""
    for one, name in zip(found, names, strict=True):
        if kind != "grounding-dino" or name in LABELS:
            assert one == name


@pytest.mark.parametrize("kind", WRITERS)
def test_texts_are_those_of_the_reference_in_any_batch(kind, tmp_path):
    model, processor = save_seeing(kind, tmp_path)
    adapter = load(tmp_path)
    together = [one.text for one in run(adapter, asked(FILES, max_tokens=9)).items]
    turned = [one.text for one in run(adapter, asked(FILES[::-1], max_tokens=9)).items][::-1]
    expected = []
    for file in FILES:
        prompt = {"text": "<CAPTION>"} if kind == "florence2" else {}
        inputs = processor(images=open_picture(file), return_tensors="pt", **prompt)
        how = {"max_new_tokens": 9, "do_sample": False, "num_beams": 1}
        tokens = model.generate(**inputs, **how)[0]
        expected.append(processor.tokenizer.decode(tokens, skip_special_tokens=True).strip())
    assert together == expected and turned == expected
    assert len(set(expected)) > 1, "a model that says the same of everything proves nothing"


def test_donut_writes_on_from_the_token_of_its_task(tmp_path):
    model, processor = save_seeing("donut", tmp_path)
    found = [
        one.text for one in run(load(tmp_path), asked(FILES, None, "<s_read>", max_tokens=9)).items
    ]
    start = processor.tokenizer("<s_read>", add_special_tokens=False, return_tensors="pt")
    for file, text in zip(FILES, found, strict=True):
        pixels = processor(images=open_picture(file), return_tensors="pt")["pixel_values"]
        how = {"max_new_tokens": 9, "do_sample": False, "num_beams": 1}
        written = model.generate(pixels, decoder_input_ids=start["input_ids"], **how)[0]
        assert text == processor.tokenizer.decode(written, skip_special_tokens=True).strip()
    assert len(set(found)) > 1, "a model that says the same of everything proves nothing"
