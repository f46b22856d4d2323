"""Who pulls a model: the workers that direct requests for it go to."""

from sie_mcp.gateway.pool.keys import Key, ranked
from sie_mcp.gateway.pool.picker import Seen, pick
from sie_mcp.gateway.queued.owners import as_demand, owners

KEY = Key("org/m")
NAMES = ("a", "b", "c", "d")
ORDER = ranked(KEY.model, NAMES)


def workers(**seen: Seen) -> dict[str, Seen]:
    return {name: seen.get(name, Seen(name)) for name in NAMES}


def test_a_cold_model_is_pulled_by_the_worker_that_a_direct_request_would_go_to():
    assert owners(KEY, workers(), 1) == [pick(KEY, workers(), 1).worker] == [ORDER[0]]


def test_who_was_told_keeps_it_until_it_has_it():
    [first] = owners(KEY, workers(), 1)
    other = next(name for name in NAMES if name != first)
    assert owners(KEY, workers(), 1, held=[other]) == [other]
    assert owners(KEY, workers(), 1, held=["gone"]) == [first]


def test_who_has_it_pulls_it_first_choice_first():
    last = Seen(ORDER[-1], resident=[KEY])
    found = workers(**{ORDER[-1]: last})
    assert owners(KEY, found, 1, held=[ORDER[0]]) == [ORDER[-1]]


def test_more_copies_come_one_at_a_time():
    found = workers(**{ORDER[0]: Seen(ORDER[0], resident=[KEY])})
    assert owners(KEY, found, 3) == [ORDER[0], ORDER[1]]
    assert owners(KEY, found, 3, held=[ORDER[0], ORDER[1]]) == [ORDER[0], ORDER[1]]


def test_a_copy_is_not_had_at_the_cost_of_what_is_in_use():
    seen = {name: Seen(name, room=0) for name in NAMES}
    seen[ORDER[0]] = Seen(ORDER[0], resident=[KEY])
    assert owners(KEY, seen, 4) == [ORDER[0]]


def test_nobody_pulls_where_nobody_is():
    assert owners(KEY, {}, 1) == []


def test_a_backlog_asks_for_more_only_when_one_worker_would_be_long_at_it():
    assert as_demand(0, 8) == 0
    assert as_demand(5, 8) == 1
    assert as_demand(64, 8) == 8
    assert as_demand(800, 8) == 100
