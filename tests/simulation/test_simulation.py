"""Scheduler and ledger under seeds and a virtual clock; invariants after every step."""

import random

import pytest

from sie_mcp.engine.memory import Ledger
from sie_mcp.engine.scheduler import Scheduler
from sie_mcp.errors import ModelTooLarge, QueueFull

SEEDS = range(150)
STEPS = 200
MAX_BATCH_TOKENS = 100
MAX_BATCH_SEQUENCES = 8
MAX_QUEUE_TOKENS = 2_000
MAX_AGE_S = 5.0


@pytest.mark.parametrize("seed", SEEDS)
def test_every_sequence_is_answered_once_in_order_and_none_is_passed_over(seed):
    rng = random.Random(seed)
    scheduler: Scheduler[tuple[str, int]] = Scheduler(
        max_batch_tokens=MAX_BATCH_TOKENS,
        max_batch_sequences=MAX_BATCH_SEQUENCES,
        max_queue_tokens=MAX_QUEUE_TOKENS,
        max_age_s=MAX_AGE_S,
    )
    now, number = 0.0, 0
    waiting: dict[int, object] = {}
    answered: set[int] = set()
    for _ in range(STEPS):
        now += rng.random()
        action = rng.random()
        if action < 0.5:
            model = rng.choice("abc")
            sizes = [rng.randint(1, 150) for _ in range(rng.randint(1, 6))]
            owners = [(model, number + place) for place in range(len(sizes))]
            full = scheduler.queue_tokens + sum(sizes) > MAX_QUEUE_TOKENS
            try:
                tickets = scheduler.submit(model, sizes, owners, now)
            except QueueFull as error:
                assert full, seed
                assert error.retry_after_s, seed
                continue
            number += len(sizes)
            waiting |= {ticket.owner[1]: ticket for ticket in tickets}
        elif action < 0.6 and waiting:
            chosen = rng.sample(sorted(waiting), k=min(3, len(waiting)))
            scheduler.cancel([waiting.pop(one) for one in chosen])
        else:
            check_batch(scheduler, now, waiting, answered, seed)
        assert scheduler.queue_tokens == sum(t.num_tokens for t in waiting.values()), seed
        assert scheduler.queue_tokens <= MAX_QUEUE_TOKENS + 6 * 150, seed
    while waiting:
        check_batch(scheduler, now, waiting, answered, seed)
    assert scheduler.next_batch(now) == [], seed


def check_batch(scheduler, now, waiting, answered, seed):
    oldest = min(waiting.values(), key=lambda ticket: ticket.submitted_s, default=None)
    batch = scheduler.next_batch(now)
    assert bool(batch) == bool(waiting), seed
    if not batch:
        return
    models = {ticket.model for ticket in batch}
    assert len(models) == 1, seed
    tokens = sum(ticket.num_tokens for ticket in batch)
    assert tokens <= MAX_BATCH_TOKENS or len(batch) == 1, seed
    assert len(batch) <= MAX_BATCH_SEQUENCES, seed
    if now - oldest.submitted_s > MAX_AGE_S:
        assert oldest.model in models, f"seed {seed}: an old sequence was passed over"
    own = [ticket for ticket in waiting.values() if ticket.model in models]
    first = min(own, key=lambda ticket: (ticket.submitted_s, ticket.owner[1]))
    assert batch[0] is first, f"seed {seed}: the oldest of a model runs next"
    for ticket in batch:
        assert ticket.owner[1] not in answered, seed
        answered.add(ticket.owner[1])
        del waiting[ticket.owner[1]]


def test_models_share_the_device_by_tokens():
    scheduler: Scheduler[int] = Scheduler(
        max_batch_tokens=10, max_batch_sequences=8, max_queue_tokens=100_000, max_age_s=1e9
    )
    for model, size in (("long", 10), ("short", 1)):
        scheduler.submit(model, [size] * 2000, list(range(2000)), 0.0)
    served = {"long": 0, "short": 0}
    for _ in range(300):
        for ticket in scheduler.next_batch(0.0):
            served[ticket.model] += ticket.num_tokens
    assert 0.6 < served["long"] / served["short"] < 1.7


def test_a_queue_that_is_empty_takes_a_request_of_any_size():
    scheduler: Scheduler[int] = Scheduler(
        max_batch_tokens=10, max_batch_sequences=8, max_queue_tokens=10, max_age_s=1.0
    )
    scheduler.submit("a", [50], [0], 0.0)
    with pytest.raises(QueueFull, match=r"try again in 2\.0 s") as caught:
        scheduler.submit("a", [10], [1], 0.0, tokens_per_s=25.0)
    assert caught.value.retry_after_s == 2.0
    assert [ticket.owner for ticket in scheduler.next_batch(0.0)] == [0]


def test_a_learned_budget_makes_batches_of_its_own_model_smaller():
    scheduler: Scheduler[int] = Scheduler(
        max_batch_tokens=100, max_batch_sequences=50, max_queue_tokens=1000, max_age_s=1.0
    )
    scheduler.submit("a", [10] * 20, list(range(20)), 0.0)
    assert len(scheduler.next_batch(0.0, max_tokens={"a": 30, "b": 1})) == 3
    assert len(scheduler.next_batch(0.0, max_tokens={"b": 1})) == 10


@pytest.mark.parametrize("seed", SEEDS)
def test_the_budget_holds_and_nothing_in_use_is_evicted(seed):
    rng = random.Random(seed)
    ledger = Ledger(budget_bytes=100, reserved_bytes=10)
    sizes = {name: rng.randint(5, 60) for name in "abcdefgh"}
    sizes["huge"] = 91
    now = 0.0
    users: dict[str, int] = {}
    for _ in range(STEPS):
        now += rng.random()
        name = rng.choice([*sizes])
        if rng.random() < 0.5 and users.get(name):
            ledger.release(name, now)
            users[name] -= 1
        elif ledger.get(name) is not None and not ledger.get(name).is_closing:
            ledger.use(name, now)
            users[name] = users.get(name, 0) + 1
        elif ledger.get(name) is None:
            load(ledger, name, sizes[name], now, users, seed)
        assert ledger.resident_bytes + ledger.reserved_bytes <= ledger.budget_bytes, seed
        for one, count in users.items():
            resident = ledger.get(one)
            assert not count or resident is not None, f"seed {seed}: {one} left while in use"


def load(ledger, name, size, now, users, seed):
    if size > 90:
        before = [one.name for one in ledger.residents()]
        with pytest.raises(ModelTooLarge):
            ledger.find_room(size, now)
        assert [one.name for one in ledger.residents()] == before, seed
        return
    free = ledger.free_bytes
    room = ledger.find_room(size, now)
    if room.wait_s is not None:
        assert room.wait_s > 0, seed
        return
    freed = [ledger.get(victim).size_bytes for victim in room.victims]
    assert all(users.get(victim, 0) == 0 for victim in room.victims), seed
    assert free + sum(freed) >= size, seed
    # Never more than needed: without any one of them it would not have been enough.
    assert all(free + sum(freed) - one < size for one in freed), seed
    for victim in room.victims:
        ledger.remove(victim)
    ledger.admit(name, size, now)
    ledger.settle(name, size, load_s=0.5, now_s=now)
    ledger.reopen()
    users[name] = 0


def test_a_model_in_use_past_its_tenure_closes_when_others_wait():
    ledger = Ledger(100)
    ledger.admit("a", 80, 0.0)
    ledger.settle("a", 80, load_s=1.0, now_s=0.0)
    ledger.use("a", 0.0)
    assert ledger.find_room(50, 1.0).wait_s == pytest.approx(3.0)
    assert not ledger.get("a").is_closing
    assert ledger.find_room(50, 5.0).wait_s is not None
    assert ledger.get("a").is_closing
    ledger.release("a", 5.0)
    assert ledger.find_room(50, 5.0).victims == ("a",)
    ledger.reopen()
    assert not ledger.get("a").is_closing


def test_an_idle_model_leaves_after_a_short_while_and_a_pinned_one_never():
    ledger = Ledger(100)
    for name in ("pinned", "idle"):
        ledger.admit(name, 45, 0.0)
        ledger.settle(name, 45, load_s=1.0, now_s=0.0)
    ledger.get("pinned").is_pinned = True
    assert ledger.find_room(45, 0.1).wait_s == pytest.approx(0.15)
    assert ledger.find_room(45, 0.3).victims == ("idle",)
    assert ledger.find_room(90, 100.0).wait_s is not None
    assert ledger.least_recent_idle() == "idle"
