"""The page of the benchmarks' records: nothing is left out, and it is that of the records there."""

import json

import pytest

from evals.bench import report

RECORD = {
    "command": "python -m evals.bench --gpu",
    "device": "a card",
    "torch": "2.11",
    "rows": [{"model": "small", "tokens_s": 12_500}, {"model": "large", "ratio": 2.5}],
    "profile": [
        {
            "model": "small",
            "workload": "tail",
            "budget": 16_384,
            "wall_ms": 2.0,
            "device_ms": 1.0,
            "kernels": [{"kernel": f"k{n}", "ms": 0.09, "calls": 6} for n in range(10)],
        }
    ],
}


def test_a_page_says_where_figures_are_from_and_has_all_of_them():
    page = report.page({"bench-a": RECORD, "bench-b": {"command": "b", "error": "no room"}})
    assert "## bench-a" in page
    assert "`python -m evals.bench --gpu`" in page
    assert "device a card; torch 2.11." in page
    assert "| model | tokens_s | ratio |" in page
    assert "| small | 12,500 |  |" in page
    assert "| large |  | 2.5 |" in page
    assert "It failed: no room" in page


def test_a_pass_is_taken_apart_to_the_last_millisecond():
    page = report.page({"bench-a": RECORD})
    assert "small, tail, 16,384 tokens: 2.0 ms, the device 1.0 ms of it." in page
    assert page.count("| `k") == report.NUM_KERNELS
    assert "| others | 0.280 | | 0.28 |" in page


def test_the_page_that_is_kept_is_that_of_the_records_that_are_kept():
    page = (report.RESULTS / report.PAGE).read_text()
    assert page == report.page(report.read(report.RESULTS))


def test_a_page_without_matplotlib_has_no_new_picture(tmp_path, monkeypatch, capsys):
    (tmp_path / "bench-a.json").write_text(json.dumps(RECORD))
    monkeypatch.setattr(report.importlib.util, "find_spec", lambda _: None)
    report.write(tmp_path)
    assert "## bench-a" in (tmp_path / report.PAGE).read_text()
    assert not (tmp_path / report.PICTURE).exists()
    assert "matplotlib is not installed" in capsys.readouterr().err


def test_a_picture_is_drawn_of_what_is_kept(tmp_path):
    figures = pytest.importorskip("evals.bench.report_figures", exc_type=ImportError)
    figures.draw(report.read(report.RESULTS), tmp_path / "a.svg")
    for drawn in (tmp_path / "a.svg", report.RESULTS / report.PICTURE):
        text = drawn.read_text()
        for name in ("bge-large, fp8, 65,536 tokens", "256 callers, Infinity", "ours bfloat16"):
            assert name in text
