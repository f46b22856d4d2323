"""What models that look at images take, refuse and report, as transformers runs them."""

from pathlib import Path
from typing import Any

import pytest
import torch

from sie_mcp.adapters.create import load_adapter, read_recipe, weight_bytes
from sie_mcp.errors import InputTooLong, InvalidInput, ModelLoadFailed
from tests.parity.seeing import LABELS, save_seeing
from tests.parity.test_seeing import asked
from tests.picture_files import PHOTOS, noise, saved
from tests.running import CPU, extract_request, load, run
from tests.tiny import change_json


@pytest.fixture
def detector(tmp_path: Path) -> Any:
    save_seeing("owlvit", tmp_path)
    return load(tmp_path)


@pytest.fixture
def writer(tmp_path: Path) -> Any:
    save_seeing("blip", tmp_path)
    return load(tmp_path)


def test_cards_say_what_is_read_and_given(detector: Any) -> None:
    card = detector.card
    assert (card.inputs, card.outputs, card.primitives) == (["image"], ["objects"], ["extract"])
    assert card.packed is False and "OwlViTForObjectDetection" in card.decisions["architecture"]


def test_a_broken_image_fails_alone(detector: Any) -> None:
    good, bad = run(detector, asked([PHOTOS[0], b"no picture"], LABELS, threshold=0.0)).items
    assert good.objects and good.error is None and good.num_tokens > 0
    assert bad.error.code == "INVALID_IMAGE" and not bad.objects


def test_top_k_keeps_the_surest_and_boxes_lie_in_the_picture(detector: Any) -> None:
    picture = saved(noise(31, 90))
    every = run(detector, asked([picture], LABELS, threshold=0.0)).items[0].objects
    few = run(detector, asked([picture], LABELS, threshold=0.0, top_k=3)).items[0].objects
    assert few == every[:3] and len(every) == 16
    for one in every:
        left, top, right, bottom = one.bbox
        assert 0 <= left <= right <= 31 and 0 <= top <= bottom <= 90


@pytest.mark.parametrize(
    ("request_of", "message"),
    [
        (lambda: asked([PHOTOS[0]]), "send labels"),
        (lambda: asked([PHOTOS[0]], ["a"], "look"), "takes no instruction"),
        (lambda: asked([PHOTOS[0]], ["a"], overlap="flat"), "has no option overlap"),
        (lambda: asked([PHOTOS[0]], [str(n) for n in range(101)]), "101 labels; at most 100"),
        (lambda: extract_request(["a text"], ["a"]), "reads images, not texts"),
    ],
)
def test_what_a_detector_cannot_do_is_refused(detector: Any, request_of, message) -> None:
    with pytest.raises(InvalidInput, match=message):
        detector.prepare(request_of())


def test_a_label_that_is_too_long_is_refused_not_cut(detector: Any) -> None:
    with pytest.raises(InputTooLong, match="reads labels of at most 16"):
        detector.prepare(asked([PHOTOS[0]], ["a long label of words"]))


def test_labels_that_are_read_as_one_text_hold_no_signs_between_them(tmp_path: Path) -> None:
    save_seeing("grounding-dino", tmp_path)
    adapter = load(tmp_path)
    with pytest.raises(InvalidInput, match=r"takes none with \. or \?"):
        adapter.prepare(asked([PHOTOS[0]], ["a.b"]))
    with pytest.raises(InputTooLong, match="tokens; tiny reads 256"):
        adapter.prepare(asked([PHOTOS[0]], [f"label {'x' * n}" for n in range(30)]))


def test_a_text_that_was_cut_says_so(writer: Any) -> None:
    item = run(writer, asked([PHOTOS[0]], max_tokens=2)).items[0]
    assert item.truncated and item.text is not None


@pytest.mark.parametrize(
    ("request_of", "message"),
    [
        (lambda: asked([PHOTOS[0]], ["a"]), "takes no labels"),
        (lambda: asked([PHOTOS[0]], threshold=0.5), "has no option threshold"),
        (lambda: asked([PHOTOS[0]], None, "a b c " * 20), "instruction has 62 tokens; at most 31"),
    ],
)
def test_what_a_writer_cannot_do_is_refused(writer: Any, request_of, message) -> None:
    with pytest.raises((InvalidInput, InputTooLong), match=message):
        writer.prepare(request_of())


def test_a_writer_that_knows_tasks_names_them(tmp_path: Path) -> None:
    save_seeing("florence2", tmp_path)
    with pytest.raises(InvalidInput, match="it knows: <CAPTION>, <DETAILED_CAPTION>"):
        load(tmp_path).prepare(asked([PHOTOS[0]], None, "<OD>"))


def test_code_of_a_checkpoint_s_own_never_runs(tmp_path: Path) -> None:
    save_seeing("blip", tmp_path)
    change_json(tmp_path, "config.json", auto_map={"AutoModel": "evil.Evil"})
    (tmp_path / "evil.py").write_text("raise SystemExit")
    with pytest.raises(ModelLoadFailed, match="code of its own"):
        read_recipe("tiny", tmp_path, None, may_run_code=True)


@pytest.mark.parametrize(
    ("file", "message"),
    [("tokenizer.json", "has no tokenizer.json"), ("processor_config.json", "has none of")],
)
def test_what_is_missing_is_named(tmp_path: Path, file: str, message: str) -> None:
    save_seeing("blip", tmp_path)
    (tmp_path / file).unlink()
    (tmp_path / "preprocessor_config.json").unlink(missing_ok=True)
    with pytest.raises(ModelLoadFailed, match=message):
        load(tmp_path)


@pytest.mark.parametrize(("kind", "dtype"), [("owlvit", torch.float32), ("blip", torch.bfloat16)])
def test_weights_take_what_was_said_and_can_leave_and_come_back(tmp_path, kind, dtype) -> None:
    save_seeing(kind, tmp_path)
    recipe = read_recipe("tiny", tmp_path, None)
    adapter = load_adapter(recipe, device=CPU, dtype=torch.bfloat16)
    weights = adapter.weights
    assert {one.dtype for one in adapter._module.parameters()} == {dtype}
    assert weights.size_bytes <= 1.2 * weight_bytes(recipe, torch.bfloat16)
    request = asked([PHOTOS[0]], LABELS if kind == "owlvit" else None)
    before = run(adapter, request).items
    pages = [torch.empty(weights.size_bytes, dtype=torch.uint8)]
    weights.stage(pages)
    weights.leave()
    weights.enter(CPU, pages)
    assert run(adapter, request).items == before
