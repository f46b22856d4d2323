"""The benchmarks beside peers run from end to end, small, on any machine."""

import json
import sys

import pytest
import torch

from evals.bench import __main__ as bench


def test_extraction_and_images_run_and_leave_a_record_each(tmp_path, monkeypatch) -> None:
    command = ["bench", "--only", "extract,images", "--tiny", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", command)
    assert bench.main() == 0
    extract, images = (
        json.loads((tmp_path / f"bench-{name}-cpu.json").read_text())
        for name in ("extract", "images")
    )
    assert extract["rows"][0]["ours_words_s"] > 0
    parts = [(row["family"], row["part"]) for row in images["rows"]]
    assert parts == [(a, b) for a in ("siglip", "siglip2") for b in ("forward", "files")]
    assert min(row["min_cosine"] for row in images["rows"]) > 0.999


@pytest.mark.skipif(torch.cuda.is_available(), reason="it would run")
def test_without_a_card_it_says_what_would_work(monkeypatch) -> None:
    monkeypatch.setattr(sys, "argv", ["bench", "--gpu", "--only", "extract"])
    with pytest.raises(SystemExit, match="no CUDA device here; leave --gpu out"):
        bench.main()


WHOLE = ("endtoend", "rerank", "short", "mixed")


def test_whole_paths_run_and_agree_with_float32(tmp_path, monkeypatch) -> None:
    command = ["bench", "--only", ",".join(WHOLE), "--tiny", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", command)
    assert bench.main() == 0
    rows = {
        name: json.loads((tmp_path / f"bench-{name}-cpu.json").read_text())["rows"]
        for name in WHOLE
    }
    cosines = [row["min_cosine"] for name in ("endtoend", "short", "mixed") for row in rows[name]]
    assert min(cosines) > 0.9999
    assert rows["rerank"][0]["correlation"] > 0.9999
    assert rows["endtoend"][0]["of_tokenizer"] > 0
    assert len(rows["mixed"]) == 2
