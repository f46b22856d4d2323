"""Which batch is large enough, on curves that are written down."""

import pytest

from sie_mcp.engine.knee import Point, Sweep, knee, sizes

SIZES = (1, 2, 4, 8, 16)


def sweep(rates, **limits):
    """Run one on a device of these speeds by size; return it and the sizes that it tried."""
    limits = {"limit_s": 100.0, "batch_limit_s": 100.0} | limits
    found, tried = Sweep(tuple(rates), **limits), []
    while (size := found.next_size()) is not None:
        tried.append(size)
        found.note(size, [3 * size / rates[size], size / rates[size]])
    return found, tried


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ((10, 20, 40, 80, 160), 16),  # Rises to the end.
        ((10, 20, 95, 100, 99), 4),  # Flat from where it has 95 %.
        ((10, 20, 94, 100, 99), 8),
        ((100, 99, 98, 97, 96), 1),
        ((50, 100, 60, 99, 98), 2),  # One slow size in between does not count.
    ],
)
def test_the_knee_is_the_smallest_size_with_nearly_the_best_speed(rates, expected):
    points = [Point(size, size, size / rate) for size, rate in zip(SIZES, rates, strict=True)]
    assert knee(points) == expected
    assert sweep(dict(zip(SIZES, rates, strict=True)))[0].result() == expected


def test_speeds_are_of_the_tokens_that_ran_and_of_the_fastest_run():
    assert knee([Point(8, 4, 1.0), Point(16, 16, 1.0)]) == 16
    found = Sweep((8,), limit_s=9, batch_limit_s=9)
    found.note(6, [3.0, 1.5])
    assert found.points[0].rate == 4.0


def test_sizes_double_from_a_part_of_the_default_up_to_the_most():
    assert sizes(16_384, 65_536) == (1024, 2048, 4096, 8192, 16_384, 32_768, 65_536)
    assert sizes(4_096, 4_096) == (256, 512, 1024, 2048, 4096)
    assert sizes(4_096, 4_095)[-1] == 2048
    assert sizes(5, 5) == (1, 2, 4)


def test_it_stops_where_larger_batches_are_slower():
    found, tried = sweep({1: 50, 2: 100, 4: 90, 8: 80, 16: 70})
    assert tried == [1, 2, 4, 8]
    assert found.result() == 2


def test_what_still_rises_when_time_runs_out_says_nothing():
    found, tried = sweep(dict.fromkeys(SIZES, 10.0) | {1: 5.0, 2: 7.0}, batch_limit_s=0.6)
    assert tried == [1, 2, 4]  # The next would take twice the 0.4 s of the last.
    assert found.result() is None
    found, tried = sweep(dict.fromkeys(SIZES, 10.0), batch_limit_s=0.6)
    assert tried == [1, 2, 4]
    assert found.result() == 1


def test_all_batches_together_have_a_limit():
    found, tried = sweep(dict.fromkeys(SIZES, 1.0), limit_s=5.0)
    assert tried == [1]  # Four seconds of five: the next size would take two.
    assert found.result() is None
    assert Sweep(SIZES, limit_s=0.0, batch_limit_s=1.0).next_size() is None
    assert Sweep(SIZES, limit_s=0.0, batch_limit_s=1.0).result() is None
