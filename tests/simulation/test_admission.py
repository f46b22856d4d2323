"""What may wait, who is refused, and when they are told to come back."""

import pytest

from sie_mcp.engine.speeds import MAX_MODELS, Speeds
from sie_mcp.engine.tickets import Terms
from sie_mcp.errors import QueueFull, RateLimited
from tests.simulation.test_fairness import BULK, make_scheduler, submit


def test_a_queue_that_is_empty_takes_a_request_of_any_size():
    scheduler = make_scheduler(max_queue_tokens=10)
    (waiting,) = submit(scheduler, "a", [50])
    with pytest.raises(QueueFull, match=r"50 tokens are waiting, max_queue_tokens is 10"):
        submit(scheduler, "a", [10])
    assert scheduler.next_batch(0.0) == [waiting]


def test_sequences_are_bounded_as_tokens_are():
    scheduler = make_scheduler(max_queue_sequences=3)
    submit(scheduler, "a", [1, 1])
    with pytest.raises(QueueFull, match="2 sequences are waiting, max_queue_sequences is 3"):
        submit(scheduler, "a", [1, 1])
    submit(scheduler, "a", [1])


def test_a_refusal_says_when_by_the_measured_speed_of_the_work_before_it():
    scheduler = make_scheduler(max_queue_tokens=100)
    scheduler.note_speed("fast", 1000, 1.0)
    scheduler.note_speed("slow", 10, 1.0)
    submit(scheduler, "fast", [50])
    submit(scheduler, "slow", [50])
    # 50 / 1000 + 50 / 10 seconds for all 100; a quarter of it must go.
    with pytest.raises(QueueFull, match=r"try again in 1\.3 s") as caught:
        submit(scheduler, "fast", [25])
    assert caught.value.retry_after_s == pytest.approx(5.05 / 4)


def test_a_client_has_a_part_of_the_queue_and_others_the_rest():
    scheduler = make_scheduler(max_queue_tokens=100)
    scheduler.note_speed("a", 10, 1.0)
    submit(scheduler, "a", [40], Terms(client=1))
    submit(scheduler, "a", [10], Terms(client=2))
    with pytest.raises(RateLimited, match=r"40 tokens in 1 sequences .* max_client_share is 0\.5"):
        submit(scheduler, "a", [20], Terms(client=1))
    submit(scheduler, "a", [20], Terms(client=2))
    # 10 tokens over its part, as one of two clients: 20 tokens run before.
    with pytest.raises(RateLimited) as caught:
        submit(scheduler, "a", [20], Terms(client=1))
    assert caught.value.retry_after_s == pytest.approx(2.0)


def test_a_client_alone_waits_for_no_more_than_there_is():
    scheduler = make_scheduler(max_queue_tokens=100)
    scheduler.note_speed("a", 10, 1.0)
    submit(scheduler, "a", [40], Terms(client=1))
    with pytest.raises(RateLimited) as caught:
        submit(scheduler, "a", [90], Terms(client=1))
    assert caught.value.retry_after_s == pytest.approx(4.0)


def test_who_does_not_say_who_they_are_share_the_whole_queue_alone():
    scheduler = make_scheduler(max_queue_tokens=100)
    submit(scheduler, "a", [60])
    submit(scheduler, "a", [40])
    with pytest.raises(QueueFull, match=r"try again in 1\.0 s"):
        submit(scheduler, "a", [1])


def test_what_waits_is_known_by_model_and_by_priority():
    scheduler = make_scheduler()
    submit(scheduler, "a", [10, 20])
    tickets = submit(scheduler, "b", [5], BULK)
    assert [scheduler.waiting_tokens(model) for model in "abc"] == [30, 5, 0]
    assert scheduler.priority_tokens("bulk") == 5
    scheduler.cancel(tickets)
    assert scheduler.waiting_tokens("b") == 0
    assert scheduler.priority_tokens("bulk") == 0


def test_a_learned_budget_makes_batches_of_its_model_smaller():
    scheduler = make_scheduler()
    for model in "ab":
        submit(scheduler, model, [10] * 50)
    longest = {"a": 0, "b": 0}
    while batch := scheduler.next_batch(0.0, learned_tokens={"a": 30, "c": 1}):
        longest[batch[0].model] = max(longest[batch[0].model], len(batch))
    assert longest == {"a": 3, "b": 12}


def test_the_speeds_of_models_that_ran_long_ago_are_forgotten():
    speeds = Speeds()
    for number in range(MAX_MODELS + 10):
        speeds.note(f"m{number}", 10, 1.0)
    speeds.note("m50", 10, 3.0)
    assert len(speeds._sums) == MAX_MODELS
    assert speeds.seconds({"m50": 19}) == pytest.approx(19 * 3.9 / 19)
    assert Speeds().seconds({"a": 1}) is None


def test_room_is_kept_for_what_is_made_ready_and_given_back():
    scheduler = make_scheduler(max_queue_tokens=100)
    submit(scheduler, "a", [40])
    with scheduler.expecting(50, 2, Terms()):
        with pytest.raises(QueueFull, match="90 tokens are waiting"):
            scheduler.check_room(20, 1, Terms())
        with pytest.raises(QueueFull), scheduler.expecting(20, 1, Terms()):
            pytest.fail("there was no room")
        # What was itself expected is taken, if it is larger than was thought too.
        submit(scheduler, "a", [30, 30])
    assert scheduler.queue_tokens == 100
    scheduler.next_batch(0.0)
    scheduler.check_room(20, 1, Terms())


def test_a_client_s_part_counts_what_is_made_ready_for_it():
    scheduler = make_scheduler(max_queue_tokens=100)
    with scheduler.expecting(40, 1, Terms(client=1)):
        with pytest.raises(RateLimited, match="40 tokens in 1 sequences"):
            scheduler.check_room(20, 1, Terms(client=1))
        scheduler.check_room(20, 1, Terms(client=2))
    scheduler.check_room(20, 1, Terms(client=1))


def test_who_is_refused_later_is_told_to_come_back_later():
    scheduler = make_scheduler(max_queue_tokens=100, max_batch_tokens=20)
    scheduler.note_speed("a", 10, 1.0)
    submit(scheduler, "a", [20] * 5)

    def told() -> float:
        with pytest.raises(QueueFull) as caught:
            scheduler.check_room(20, 1, Terms())
        assert caught.value.retry_after_s is not None
        return caught.value.retry_after_s

    assert [told() for _ in range(3)] == pytest.approx([2.0, 4.0, 6.0])
    # What runs makes room for the first of them.
    scheduler.next_batch(0.0)
    scheduler.check_room(20, 1, Terms())
    submit(scheduler, "a", [20])
    assert told() == pytest.approx(6.0)
    # However many were refused, nobody waits for more than two full queues.
    assert max(told() for _ in range(50)) == pytest.approx(12.0)
