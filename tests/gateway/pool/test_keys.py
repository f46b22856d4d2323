"""Orders of workers: the same everywhere, fair, and moved little by who joins or leaves."""

from collections import Counter

from sie_mcp.gateway.pool.keys import Key, owners_of, ranked

WORKERS = tuple(f"w{n}" for n in range(8))
MODELS = [f"model-{n}" for n in range(2_000)]


def test_an_order_has_every_worker_once_and_is_always_the_same():
    assert sorted(ranked("m", WORKERS)) == sorted(WORKERS)
    assert ranked("m", WORKERS) == ranked("m", tuple(reversed(WORKERS)))
    # Other processes must find it too: not Python's own hash.
    assert ranked("m", ("a", "b", "c")) == ("a", "c", "b")


def test_models_are_spread_over_workers():
    firsts = Counter(ranked(model, WORKERS)[0] for model in MODELS)
    mean = len(MODELS) / len(WORKERS)
    assert min(firsts.values()) > 0.8 * mean
    assert max(firsts.values()) < 1.2 * mean


def test_a_worker_that_joins_takes_its_share_and_moves_nothing_else():
    more = (*WORKERS, "w8")
    moved = [m for m in MODELS if ranked(m, WORKERS)[0] != ranked(m, more)[0]]
    assert {ranked(model, more)[0] for model in moved} == {"w8"}
    assert 0.07 < len(moved) / len(MODELS) < 0.15
    # And the order of the others stays as it was.
    for model in MODELS[:50]:
        assert tuple(w for w in ranked(model, more) if w != "w8") == ranked(model, WORKERS)


def test_a_loras_owners_are_some_of_its_base_models():
    base = owners_of(Key("m"), WORKERS, 3)
    assert base == ranked("m", WORKERS)[:3]
    firsts = Counter(owners_of(Key("m", f"lora-{n}"), WORKERS, 3)[0] for n in range(300))
    assert set(firsts) == set(base)
    assert min(firsts.values()) > 50


def test_more_copies_than_workers_are_all_workers():
    assert set(owners_of(Key("m"), WORKERS, 20)) == set(WORKERS)
