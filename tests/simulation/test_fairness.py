"""Who gets what of a device that always has more to do: models, priorities, clients, long texts."""

import random
from collections import Counter
from collections.abc import Callable, Iterable

import pytest

from sie_mcp.engine.scheduler import (
    AGED_EVERY,
    BULK_SHARE,
    DRAIN_BATCHES,
    LONG_SHARE,
    TOP_UP_SHARE,
    Scheduler,
)
from sie_mcp.engine.tickets import Terms, Ticket

SEEDS = range(20)
BATCH = 128
BULK = Terms(priority="bulk")


def make_scheduler(**other) -> Scheduler[object]:
    settings = {
        "max_batch_tokens": BATCH,
        "max_batch_sequences": 64,
        "max_queue_tokens": 10**9,
        "max_queue_sequences": 10**6,
        "max_age_s": 1e9,
    }
    return Scheduler(**(settings | other))


def sizes(rng: random.Random, longest: int, count: int = 20) -> list[int]:
    return [rng.randint(1, longest) for _ in range(count)]


def submit(
    scheduler: Scheduler[object], model: str, tokens: list[int], terms: Terms | None = None
) -> list[Ticket]:
    return scheduler.submit(model, tokens, [None] * len(tokens), 0.0, terms)


class Busy:
    """A device that runs batch after batch, whose lines are never empty."""

    def __init__(self, scheduler: Scheduler, refill: Callable[[Ticket], None]) -> None:
        self._scheduler = scheduler
        self._refill = refill

    def batches(self, count: int, now_s: float = 0.0) -> Iterable[list[Ticket]]:
        for _ in range(count):
            batch = self._scheduler.next_batch(now_s)
            for ticket in batch:
                self._refill(ticket)
            yield batch


@pytest.mark.parametrize("seed", SEEDS)
def test_models_share_the_device_by_weight_within_two_turns_and_a_batch(seed):
    rng = random.Random(seed)
    weights = {name: rng.choice([0.5, 1.0, 2.0, 3.0]) for name in "abcd"}
    longest = {name: rng.choice([3, 15, 100]) for name in weights}
    scheduler = make_scheduler(weights=weights)
    for name in weights:
        submit(scheduler, name, sizes(rng, longest[name], count=200))
    served: Counter[str] = Counter()
    refill = Busy(
        scheduler, lambda one: submit(scheduler, one.model, sizes(rng, longest[one.model], 1))
    )
    bound = 2 * DRAIN_BATCHES * BATCH + BATCH / min(weights.values())
    for batch in refill.batches(150):
        served.update({batch[0].model: sum(ticket.num_tokens for ticket in batch)})
        shares = [served[name] / weight for name, weight in weights.items()]
        assert max(shares) - min(shares) <= bound, f"seed {seed}: {served}"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_model_is_drained_for_a_bounded_turn_before_another_has_the_device(seed):
    rng = random.Random(seed)
    scheduler = make_scheduler()
    for name in "ab":
        submit(scheduler, name, sizes(rng, 16, count=200))
    busy = Busy(scheduler, lambda one: submit(scheduler, one.model, sizes(rng, 16, 1)))
    models = [batch[0].model for batch in busy.batches(200)]
    turns = [len(run) for run in "".join(models).replace("ab", "a b").replace("ba", "b a").split()]
    assert all(DRAIN_BATCHES - 1 <= turn <= DRAIN_BATCHES + 2 for turn in turns[:-1]), turns


@pytest.mark.parametrize("seed", SEEDS)
def test_clients_of_a_model_get_equal_tokens_within_a_batch_and_a_sequence(seed):
    """However long their sequences, and however many they send."""
    rng = random.Random(seed)
    longest = {client: rng.choice([3, 15, 100]) for client in (None, 1, 2, 3)}
    scheduler = make_scheduler()
    for client in longest:
        submit(scheduler, "a", sizes(rng, longest[client], 200), Terms(client=client))

    def refill(one: Ticket) -> None:
        submit(scheduler, "a", sizes(rng, longest[one.terms.client], 1), one.terms)

    served = Counter(dict.fromkeys(longest, 0))
    for batch in Busy(scheduler, refill).batches(200):
        for ticket in batch:
            served[ticket.terms.client] += ticket.num_tokens
        spread = max(served.values()) - min(served.values())
        assert spread <= BATCH + max(longest.values()), f"seed {seed}: {served}"


@pytest.mark.parametrize("is_old", [False, True])
def test_one_client_s_four_thousand_items_do_not_hold_back_another_s_query(is_old):
    scheduler = make_scheduler(max_age_s=1.0)
    submit(scheduler, "a", [10] * 4000, Terms(client=1))
    now_s = 100.0 if is_old else 0.0
    scheduler.next_batch(now_s)
    query = scheduler.submit("a", [5], [None], now_s, Terms(client=2))[0]
    batches = [scheduler.next_batch(now_s) for _ in range(2)]
    # One batch may have begun with what is too old.
    assert query in batches[0] + (batches[1] if is_old else [])


@pytest.mark.parametrize("seed", SEEDS)
def test_bulk_gets_its_share_beside_interactive_work_that_never_ends(seed):
    rng = random.Random(seed)
    bulk_model = rng.choice("ab")
    scheduler = make_scheduler()
    submit(scheduler, "a", sizes(rng, 20, 200))
    submit(scheduler, bulk_model, sizes(rng, 100, 200), BULK)
    busy = Busy(scheduler, lambda one: submit(scheduler, one.model, [one.num_tokens], one.terms))
    served: Counter[str] = Counter()
    for batch in busy.batches(300):
        for ticket in batch:
            served[ticket.terms.priority] += ticket.num_tokens
        least = served["interactive"] * BULK_SHARE / (1 - BULK_SHARE) - 2 * BATCH
        assert served["bulk"] >= least, f"seed {seed}: {served}"
    assert served["interactive"] > 0.6 * served.total()


def test_interactive_work_goes_before_bulk_of_any_model_and_takes_little_of_it_along():
    scheduler = make_scheduler()
    submit(scheduler, "a", [10] * 500, BULK)
    submit(scheduler, "b", [10] * 500, BULK)
    scheduler.next_batch(0.0)
    query = submit(scheduler, "b", [8])[0]
    batch = scheduler.next_batch(0.0)
    assert batch[0] is query
    assert sum(ticket.num_tokens for ticket in batch) <= 8 + TOP_UP_SHARE * BATCH
    assert len(batch) > 1


def test_a_short_sequence_never_stands_behind_a_row_of_long_ones():
    scheduler = make_scheduler()
    long = int(LONG_SHARE * BATCH) + 1
    submit(scheduler, "a", [long * 6] * 100)
    scheduler.next_batch(0.0)
    short = submit(scheduler, "a", [5, 5, 5])
    assert scheduler.next_batch(0.0) == short


@pytest.mark.parametrize("seed", SEEDS)
def test_long_sequences_wait_for_as_many_tokens_of_short_ones_as_they_have_themselves(seed):
    rng = random.Random(seed)
    scheduler = make_scheduler()
    long_from = LONG_SHARE * BATCH
    submit(scheduler, "a", [rng.randint(1, 10) for _ in range(100)])
    submit(scheduler, "a", [rng.randint(20, 150) for _ in range(100)])

    def refill(one: Ticket) -> None:
        submit(scheduler, "a", [one.num_tokens])

    served = Counter({True: 0, False: 0})
    for batch in Busy(scheduler, refill).batches(200):
        for ticket in batch:
            served[ticket.num_tokens > long_from] += ticket.num_tokens
        assert abs(served[True] - served[False]) <= BATCH + 150, f"seed {seed}: {served}"


def test_a_small_batch_of_what_is_too_old_never_takes_more_than_its_turn():
    """Behind a queue that is all too old, fairness still decides three batches of four."""
    scheduler = make_scheduler(max_age_s=1.0)
    submit(scheduler, "old", [10] * 1000, BULK)
    scheduler.submit("new", [10] * 1000, [None] * 1000, 50.0)
    models = [scheduler.next_batch(100.0)[0].model for _ in range(8 * AGED_EVERY)]
    share_due = 1 / AGED_EVERY + BULK_SHARE
    assert 1 / AGED_EVERY <= models.count("old") / len(models) <= share_due + 1 / len(models)


def test_a_client_that_cancels_does_not_pay_for_what_did_not_run():
    scheduler = make_scheduler()
    submit(scheduler, "a", [10] * 1000, Terms(client=1))
    given_up = submit(scheduler, "a", [10] * 1000, Terms(client=2))
    assert scheduler.cancel(given_up) == 1000
    assert scheduler.cancel(given_up) == 0
    scheduler.next_batch(0.0)
    query = submit(scheduler, "a", [10], Terms(client=2))[0]
    assert query in scheduler.next_batch(0.0)


def test_what_was_cancelled_takes_no_memory_while_the_device_is_stuck():
    scheduler = make_scheduler()
    kept = submit(scheduler, "a", [10])
    for _ in range(500):
        scheduler.cancel(submit(scheduler, "a", [10] * 10))
    flows = list(scheduler._lines["interactive"].flows("a"))
    assert [flow.num_waiting for flow in flows] == [1]
    assert len(flows[0]._short.tickets) <= 64
    assert scheduler.next_batch(0.0) == kept
