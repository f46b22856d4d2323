"""Who stands aside, for how long, and never too many."""

from sie_mcp.gateway.pool.ejection import MAX_AWAY_S, Ejections

WORKERS = ("a", "b", "c", "d")


def test_a_worker_stands_aside_longer_each_time_it_fails_again():
    ejections = Ejections()
    now_s = 0.0
    for away_s in (1, 2, 4, 8, 16, 32, 60, 60):
        ejections.failed("a", now_s)
        assert ejections.away(WORKERS, now_s + away_s - 0.01) == {"a"}
        assert not ejections.away(WORKERS, now_s + away_s)
        now_s += away_s
    assert away_s == MAX_AWAY_S


def test_many_requests_that_fail_at_once_are_one_failure():
    ejections = Ejections()
    for _ in range(50):
        ejections.failed("a", 10.0)
    assert not ejections.away(WORKERS, 11.0)


def test_an_answer_forgives_everything():
    ejections = Ejections()
    ejections.failed("a", 0.0)
    ejections.failed("a", 1.0)
    ejections.answered("a")
    assert not ejections.away(WORKERS, 1.5)
    ejections.failed("a", 2.0)
    assert not ejections.away(WORKERS, 3.0)


def test_no_more_than_half_stand_aside_and_those_that_failed_most_do():
    ejections = Ejections()
    for name in WORKERS:
        ejections.failed(name, 0.0)
    for name in ("b", "d"):
        ejections.failed(name, 1.0)
    assert ejections.away(WORKERS, 1.0) == {"b", "d"}
    assert ejections.away(("a",), 0.5) == set()


def test_who_left_is_forgotten():
    ejections = Ejections()
    ejections.failed("a", 0.0)
    ejections.keep({"b"})
    assert not ejections.away(WORKERS, 0.5)
