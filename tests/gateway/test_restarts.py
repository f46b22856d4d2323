"""When a worker may be started again."""

from sie_mcp.gateway.restarts import FIRST_PAUSE_S, FREE_STARTS, MAX_PAUSE_S, STEADY_S, Restarts


def test_the_first_starts_are_free_and_each_later_one_waits_longer_up_to_a_limit():
    restarts, now_s, waits = Restarts(), 0.0, []
    for _ in range(40):
        waits.append(restarts.wait_s(now_s))
        now_s += waits[-1]
        assert restarts.wait_s(now_s) == 0
        restarts.started(now_s)
    assert waits[:FREE_STARTS] == [0.0] * FREE_STARTS
    assert waits[FREE_STARTS : FREE_STARTS + 3] == [FIRST_PAUSE_S, 2 * FIRST_PAUSE_S, 1.0]
    assert waits == sorted(waits)
    assert waits[-1] == MAX_PAUSE_S


def test_a_worker_that_lived_begins_anew():
    restarts = Restarts()
    for _ in range(5):
        restarts.started(0.0)
    restarts.started(STEADY_S + 1)
    assert restarts.num_in_a_row == 1
    assert restarts.wait_s(STEADY_S + 1) == 0
