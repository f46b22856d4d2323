"""What a worker was told to pull, and until when."""

import pydantic
import pytest

from sie_mcp.broker.pull_request import PullRequest
from sie_mcp.engine.pulling.leases import MAX_MODELS, Leases
from sie_mcp.errors import InvalidInput


def wish(*tokens: str, pool: str = "l4", lease_s: float = 8.0) -> PullRequest:
    return PullRequest(pool=pool, tokens=list(tokens), lease_s=lease_s, ack_wait_s=5.0, slots=16)


def test_a_lease_ends_by_itself_and_lasts_while_it_is_told_again():
    leases = Leases("l4")
    assert leases.take(wish("a", "b"), 0.0) == 2
    assert leases.take(wish("a"), 6.0) == 2
    assert set(leases.tokens(9.0)) == {"a"}
    assert leases.left_s("a", 9.0) == 5.0
    assert leases.left_s("b", 9.0) == 0.0
    assert not leases.tokens(14.0)
    assert (leases.ack_wait_s, leases.slots) == (5.0, 16)


def test_a_shorter_lease_of_another_gateway_takes_nothing_away():
    leases = Leases("l4")
    leases.take(wish("a", lease_s=60.0), 0.0)
    leases.take(wish("a", lease_s=1.0), 1.0)
    assert leases.left_s("a", 2.0) == 58.0


def test_another_pools_lease_is_refused():
    with pytest.raises(InvalidInput, match=r"pool l4 \(queue_pool\), not of h100"):
        Leases("l4").take(wish("a", pool="h100"), 0.0)


def test_there_is_a_limit_to_what_one_worker_pulls():
    leases = Leases("l4")
    for part in range(4):
        leases.take(wish(*(f"{part}_{n}" for n in range(256))), 0.0)
    assert len(leases.tokens(0.0)) == MAX_MODELS


@pytest.mark.parametrize("token", ["a.b", "*", ">", "a b", "", "x" * 201])
def test_what_means_more_in_a_subject_is_no_token(token):
    with pytest.raises(pydantic.ValidationError):
        wish(token)
