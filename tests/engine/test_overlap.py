"""Batches that are begun before the last one's results are waited for."""

import numpy as np
import torch

from sie_mcp import wire
from sie_mcp.engine.recovery import Forwards
from sie_mcp.errors import InferenceError
from tests.toys import POISON, ToyAdapter, toy_vector


def forwards(speeds=None):
    def note(*figures):
        if speeds is not None:
            speeds.append(figures)

    return Forwards(torch.device("cpu"), lambda: False, lambda: None, note, retries_nonfinite=False)


def sequences(adapter, *texts):
    items = [wire.Item(text=text) for text in texts]
    return adapter.prepare(wire.EncodeRequest(items=items)).sequences


def test_two_that_are_begun_give_each_its_own_results():
    adapter, own = ToyAdapter("toy"), forwards()
    first = own.start(adapter, sequences(adapter, "a", "b"))
    second = own.start(adapter, sequences(adapter, "c"))
    found = [one["dense"][0] for one in (*first(), *second())]
    assert all(np.array_equal(a, toy_vector(b)) for a, b in zip(found, "abc", strict=True))


def test_one_that_fails_to_begin_says_so_when_it_is_waited_for_and_spares_the_other():
    adapter, own = ToyAdapter("toy"), forwards()
    first = own.start(adapter, sequences(adapter, "a"))
    second = own.start(adapter, sequences(adapter, POISON, "b"))
    assert np.array_equal(first()[0]["dense"][0], toy_vector("a"))
    poisoned, spared = second()
    assert isinstance(poisoned, InferenceError)
    assert np.array_equal(spared["dense"][0], toy_vector("b"))


def test_time_that_two_share_counts_once():
    speeds = []
    adapter, own = ToyAdapter("toy"), forwards(speeds)
    begun = [own.start(adapter, sequences(adapter, text)) for text in "abc"]
    for finish in begun:
        finish()
    # The later ones waited for the first: their own time begins with its end.
    first, *others = [seconds for _, _, seconds in speeds]
    assert all(0 <= seconds <= first for seconds in others)
