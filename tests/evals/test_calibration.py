"""The figures of calibration on cases whose answers are known."""

import numpy as np
import pytest

from evals.calibration import calibration_error, confusion, fit, shares


def test_a_judge_as_often_right_as_it_says_has_no_error() -> None:
    probabilities = np.tile([0.75, 0.25], (100, 1))
    right = np.array([0] * 75 + [1] * 25)
    assert calibration_error(probabilities, right) == pytest.approx(0.0)
    assert calibration_error(probabilities, np.ones(100, dtype=int)) == pytest.approx(0.75)


def test_the_temperature_that_made_the_labels_is_found_again() -> None:
    generator = np.random.default_rng(0)
    cosines = generator.normal(0.3, 0.1, (4_000, 5))
    drawn = [generator.choice(5, p=row) for row in shares(cosines, 0.06)]
    assert fit(cosines, np.array(drawn)) == pytest.approx(0.06, rel=0.15)


def test_labels_that_are_taken_for_each_other_are_counted_by_nearness() -> None:
    cosines = np.array([[0.9, 0.1, 0.0], [0.9, 0.1, 0.0], [0.0, 0.0, 0.9]])
    labels = np.array([[1.0, 0.9, 0.1], [0.9, 1.0, 0.1], [0.1, 0.1, 1.0]])
    near, far = confusion(cosines, np.array([0, 1, 2]), labels)
    assert near == pytest.approx(0.5) and far == 0.0
