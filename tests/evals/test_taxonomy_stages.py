"""The shares of the stages: what is timed inside something else counts once."""

import pytest

from evals.taxonomy_stages import shares


def test_a_second_that_is_timed_twice_counts_once() -> None:
    seconds = {
        "encode a": 4.0,
        "encode b": 1.0,
        "WordIndex.similarities": 0.5,
        "Classifier.evidence": 2.0,
        "Classifier.calibrated": 1.0,
        "Classifier.decide": 3.0,
        "Journal.add": 0.5,
        "Writer.write": 0.5,
    }
    rows = {row["stage"]: row for row in shares(seconds, 100)}
    assert rows["cosines with the categories"]["seconds"] == 1.5
    assert rows["fusing, deciding, confidence"]["seconds"] == 2.0
    assert sum(row["seconds"] for row in rows.values()) == pytest.approx(10.0)
    assert rows["encode a"]["share"] == 0.4 and rows["encode a"]["products_per_s"] == 25.0
