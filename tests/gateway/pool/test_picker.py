"""Who gets a request."""

import pytest

from sie_mcp.gateway.pool.keys import Key, owners_of, ranked
from sie_mcp.gateway.pool.picker import (
    LOADS_ABREAST,
    MAX_FILL,
    Choice,
    Fetching,
    Seen,
    next_best,
    pick,
)

KEY = Key("m")
NAMES = tuple(f"w{n}" for n in range(6))
ORDER = ranked("m", NAMES)


def pool(**seen: Seen) -> dict[str, Seen]:
    """Return all workers, some of them as given."""
    return {name: seen.get(name, Seen(name)) for name in NAMES}


def holding(name: str, in_flight: int = 0) -> Seen:
    return Seen(name, in_flight=in_flight, resident={KEY})


def test_a_model_that_nobody_has_goes_to_its_first_owner():
    assert pick(KEY, pool(), 1) == Choice(ORDER[0], "cold")


def test_an_owner_with_the_model_in_host_memory_comes_before_one_without():
    near = Seen(ORDER[1], nearby={KEY})
    assert pick(KEY, pool(**{ORDER[1]: near}), 2) == Choice(ORDER[1], "cold")


def test_while_one_loads_it_others_wait_in_the_gateway():
    assert pick(KEY, pool(**{ORDER[3]: Seen(ORDER[3], loading={KEY})}), 1) == Choice(
        None, "loading"
    )
    asked = Fetching({ORDER[0]: {KEY}})
    assert pick(KEY, pool(), 1, fetching=asked) == Choice(None, "loading")


def test_who_has_it_gets_the_request_wherever_it_should_be():
    assert pick(KEY, pool(**{ORDER[5]: holding(ORDER[5])}), 1) == Choice(ORDER[5], "resident")


def test_the_least_full_of_the_owners_gets_it():
    seen = pool(**{ORDER[0]: holding(ORDER[0], 5), ORDER[1]: holding(ORDER[1], 4)})
    assert pick(KEY, seen, 2) == Choice(ORDER[1])
    # By slots, not by requests.
    seen[ORDER[0]].slots = 16
    assert pick(KEY, seen, 2) == Choice(ORDER[0])


def test_a_former_owner_helps_but_not_all_of_them():
    seen = pool(**{name: holding(name, 5 - place) for place, name in enumerate(ORDER[:4])})
    assert pick(KEY, seen, 1).worker == ORDER[1]
    assert pick(KEY, seen, 2).worker == ORDER[2]


def test_a_worker_that_needs_what_it_has_is_passed_over():
    busy = Seen(ORDER[0], room=0.9, idle_s=1.0)
    assert pick(KEY, pool(**{ORDER[0]: busy}), 1) == Choice(ORDER[1], "cold")
    seen = {name: Seen(name, room=0, idle_s=1.0 + place) for place, name in enumerate(ORDER)}
    # All do: the one that misses it least.
    assert pick(KEY, seen, 1) == Choice(ORDER[-1], "cold")
    # A further copy is worth no eviction of what is in use.
    assert pick(KEY, seen | {ORDER[0]: holding(ORDER[0])}, 2).prefetch is None
    room = {ORDER[0]: holding(ORDER[0]), ORDER[4]: Seen(ORDER[4])}
    assert pick(KEY, seen | room, 2).prefetch == ORDER[4]


def test_what_it_was_asked_for_and_has_not_shown_yet_takes_room_as_well():
    near = pool(**{ORDER[0]: Seen(ORDER[0], room=2)})
    one, two = ({Key(str(n)) for n in range(count)} for count in (1, 2))
    assert pick(KEY, near, 1, fetching=Fetching({ORDER[0]: one})).worker == ORDER[0]
    assert pick(KEY, near, 1, fetching=Fetching({ORDER[0]: two})).worker == ORDER[1]


def test_of_models_that_nobody_has_loaded_yet_no_worker_is_asked_for_all():
    asked: dict[str, set[Key]] = {}
    for number in range(LOADS_ABREAST * len(NAMES)):
        key = Key(f"m{number}")
        worker = pick(key, pool(), 1, fetching=Fetching(asked)).worker
        assert worker is not None
        asked.setdefault(worker, set()).add(key)
    assert {len(keys) for keys in asked.values()} == {LOADS_ABREAST}
    # Beyond that, the order's first again.
    assert pick(KEY, pool(), 1, fetching=Fetching(asked)).worker == ORDER[0]


def test_when_all_that_have_it_are_full_it_waits_and_a_copy_is_fetched():
    full = int(8 * MAX_FILL)
    seen = pool(**{ORDER[0]: holding(ORDER[0], full)})
    assert pick(KEY, seen, 2) == Choice(None, "resident", prefetch=ORDER[1])
    # Also where one copy would do: whoever has it is full of other models' requests.
    assert pick(KEY, seen, 1) == Choice(None, "resident", prefetch=ORDER[1])
    crowd = {name: Seen(name, in_flight=full) for name in ORDER}
    assert pick(KEY, crowd | {ORDER[0]: seen[ORDER[0]]}, 1).prefetch is None


def test_a_copy_is_fetched_by_one_owner_at_a_time_and_by_none_that_is_fetching():
    seen = pool(**{ORDER[0]: holding(ORDER[0])})
    assert pick(KEY, seen, 3).prefetch == ORDER[1]
    busy = seen | {ORDER[1]: Seen(ORDER[1], loading={Key("other")})}
    assert pick(KEY, busy, 3).prefetch == ORDER[2]
    coming = seen | {ORDER[1]: Seen(ORDER[1], loading={KEY})}
    assert pick(KEY, coming, 3).prefetch is None


def test_a_worker_that_failed_the_request_is_not_tried_again():
    seen = pool(**{ORDER[0]: holding(ORDER[0]), ORDER[1]: holding(ORDER[1], 3)})
    assert pick(KEY, seen, 1, tried={ORDER[0]}).worker == ORDER[1]
    assert pick(KEY, pool(), 1, tried={ORDER[0]}) == Choice(ORDER[1], "cold")
    assert pick(KEY, pool(), 1, tried=NAMES) == Choice(None, "cold")


@pytest.mark.parametrize("copies", [1, 2, 3])
def test_a_lora_stays_among_its_base_models_owners(copies):
    base = owners_of(KEY, NAMES, copies)
    for number in range(20):
        assert pick(Key("m", f"lora{number}"), pool(), copies).worker in base


def test_a_pool_without_workers_lets_it_wait():
    assert pick(KEY, {}, 1) == Choice(None, "cold")


def test_next_best_are_those_that_have_it_then_the_order_and_the_full_last():
    workers = pool(
        **{
            ORDER[4]: holding(ORDER[4]),
            ORDER[5]: holding(ORDER[5], in_flight=int(8 * MAX_FILL)),
            ORDER[1]: Seen(ORDER[1], in_flight=int(8 * MAX_FILL)),
        }
    )
    best = next_best(KEY, workers, ORDER[0], 9)
    assert best == (ORDER[4], ORDER[5], ORDER[2], ORDER[3], ORDER[1])
    assert next_best(KEY, workers, ORDER[0], 2) == best[:2]
    assert next_best(KEY, {ORDER[0]: Seen(ORDER[0])}, ORDER[0], 2) == ()
