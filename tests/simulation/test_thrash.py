"""What loading bought: figures of stays under a virtual clock."""

import pytest

from sie_mcp.engine.thrash import MAX_NAMES, Thrash


def test_a_stay_ends_with_what_the_model_did_in_it():
    thrash = Thrash()
    thrash.loaded("a", 2.0, 10.0)
    thrash.worked("a", tokens=100, device_s=0.5)
    thrash.worked("a", tokens=50, device_s=0.5)
    stay = thrash.left("a", is_victim=True)
    assert (stay.requests, stay.tokens, stay.device_s, stay.was_short) == (2, 150, 1.0, True)
    thrash.loaded("a", 1.0, 20.0)
    thrash.worked("a", tokens=30, device_s=3.0)
    assert not thrash.left("a", is_victim=True).was_short
    figures = thrash.figures(20.0, "a")
    assert (figures.loads, figures.evictions, figures.short_stays) == (2, 2, 1)
    assert (figures.requests_per_load, figures.tokens_per_load) == (1.5, 90.0)
    assert (figures.load_s, figures.device_s) == (3.0, 4.0)


def test_the_present_stay_counts_and_an_unload_is_no_eviction():
    thrash = Thrash()
    thrash.loaded("a", 1.0, 0.0)
    thrash.worked("a", tokens=10, device_s=0.1)
    assert thrash.figures(0.0).tokens_per_load == 10
    thrash.left("a", is_victim=False)
    assert thrash.figures(0.0, "a").evictions == 0
    assert thrash.figures(0.0, "a").short_stays == 0
    assert thrash.left("a", is_victim=True) is None


def test_loads_are_counted_for_a_minute():
    thrash = Thrash()
    for second in range(10):
        thrash.loaded("ab"[second % 2], 0.1, float(second))
    assert thrash.figures(30.0).loads_per_minute == 10
    assert thrash.figures(30.0, "a").loads_per_minute == 5
    assert thrash.figures(64.0).loads_per_minute == 5
    assert thrash.figures(500.0).loads_per_minute == 0
    assert thrash.figures(500.0).loads == 10


@pytest.mark.parametrize("name", ["never seen", "m0"])
def test_names_are_forgotten_in_time(name):
    thrash = Thrash()
    for number in range(MAX_NAMES + 1):
        thrash.loaded(f"m{number}", 1.0, 0.0)
        thrash.left(f"m{number}", is_victim=True)
    assert thrash.figures(0.0, name).loads == 0
    assert thrash.figures(0.0, f"m{MAX_NAMES}").loads == 1
