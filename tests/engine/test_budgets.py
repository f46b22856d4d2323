"""What batches may hold after memory ran out: learned per model, and forgotten again."""

from sie_mcp.engine import budgets
from sie_mcp.engine.budgets import FIRST_PATIENCE, SMALLEST_TOKENS, Budgets


def run(learned: Budgets, tokens: int, count: int = 1) -> None:
    for _ in range(count):
        learned.fitted("a", tokens)


def test_a_budget_is_half_of_what_did_not_fit_and_its_own_model_s_alone():
    learned = Budgets()
    assert learned.did_not_fit("a", 16_384) == 8_192
    assert learned.tokens == {"a": 8_192}
    # A larger batch that was on its way does not raise it again.
    assert learned.did_not_fit("a", 32_768) == 8_192
    # Nor does one that is a little larger lower it: of less than 8,192 nothing was seen.
    assert learned.did_not_fit("a", 9_000) == 8_192
    assert learned.did_not_fit("a", 8_192) == 4_096


def test_a_budget_has_a_smallest_size():
    assert Budgets().did_not_fit("a", 65) == SMALLEST_TOKENS


def test_many_batches_that_fit_double_a_budget_until_nothing_is_left_of_it():
    learned = Budgets()
    learned.did_not_fit("a", 16_384)
    learned.did_not_fit("a", 8_192)
    run(learned, 4_000, FIRST_PATIENCE - 1)
    assert learned.tokens == {"a": 4_096}
    run(learned, 4_000)
    assert learned.tokens == {"a": 8_192}
    run(learned, 8_000, FIRST_PATIENCE)
    assert learned.tokens == {}


def test_batches_that_come_nowhere_near_a_budget_say_nothing_of_it():
    learned = Budgets()
    learned.did_not_fit("a", 16_384)
    run(learned, 4_000, 1_000)
    assert learned.tokens == {"a": 8_192}


def test_a_device_that_stays_too_small_is_asked_ever_less_often():
    learned = Budgets()
    num_failed, num_run = 0, 10_000
    for _ in range(num_run):
        if learned.tokens.get("a", 16_384) > 8_192:
            learned.did_not_fit("a", 16_384)
            num_failed += 1
        run(learned, learned.tokens["a"])
    assert num_failed <= 16


def test_memory_that_came_free_is_tried_with_the_next_good_batch():
    learned = Budgets()
    learned.did_not_fit("a", 16_384)
    learned.memory_came_free()
    assert learned.tokens == {"a": 8_192}
    run(learned, 8_000)
    assert learned.tokens == {}


def test_models_that_are_no_more_do_not_pile_up(monkeypatch):
    monkeypatch.setattr(budgets, "MAX_MODELS", 3)
    learned = Budgets()
    for number in range(10):
        learned.did_not_fit(f"model-{number}", 1_000)
    assert list(learned.tokens) == ["model-7", "model-8", "model-9"]
