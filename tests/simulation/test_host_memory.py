"""The account of host memory under seeds; invariants after every step."""

import random

import pytest

from sie_mcp.engine.host_memory import HostLedger

SEEDS = range(150)
STEPS = 200
PAGE = 8
NUM_PAGES = 20


@pytest.mark.parametrize("seed", SEEDS)
def test_pages_have_one_owner_each_and_copies_in_use_stay(seed):
    rng = random.Random(seed)
    # What is over whole pages is no page.
    ledger = HostLedger(NUM_PAGES * PAGE + PAGE - 1, PAGE)
    assert ledger.budget_bytes == NUM_PAGES * PAGE
    sizes = {name: rng.randint(1, 9 * PAGE) for name in "abcdefgh"}
    in_making: set[str] = set()
    in_use: dict[str, int] = {}
    for step in range(STEPS):
        name = rng.choice([*sizes])
        action = rng.random()
        copy = ledger.get(name)
        if copy is None:
            if make_room(ledger, sizes[name], in_making, in_use, seed):
                ledger.admit(name, sizes[name], float(step))
                in_making.add(name)
        elif name in in_making:
            in_making.remove(name)
            if action < 0.8:
                ledger.settle(name)
            else:
                ledger.remove(name)
        elif action < 0.3:
            ledger.use(name)
            in_use[name] = in_use.get(name, 0) + 1
        elif action < 0.7 and in_use.get(name):
            ledger.release(name)
            in_use[name] -= 1
        elif action < 0.9:
            ledger.move(name, float(step), is_on_device=not copy.is_on_device)
        check(ledger, sizes, in_making, in_use, seed)


def make_room(ledger, size, in_making, in_use, seed) -> bool:
    free = ledger.free_bytes
    victims = ledger.find_room(size)
    idle = [one for one in ledger.copies() if not one.users]
    could = free + sum(one.size_bytes for one in idle)
    if victims is None:
        assert could < size, f"seed {seed}: there was room"
        return False
    gone = [ledger.get(name) for name in victims]
    assert not in_making & {*victims}, seed
    assert not any(in_use.get(name) for name in victims), seed
    freed = sum(one.size_bytes for one in gone)
    assert free + freed >= size, seed
    assert all(free + freed - one.size_bytes < size for one in gone), f"seed {seed}: one too many"
    if any(not one.is_on_device for one in gone):
        small = sum(one.size_bytes for one in idle if one.is_on_device)
        assert free + small < size, f"seed {seed}: copies of models on the device go first"
    for name in victims:
        ledger.remove(name)
    return True


def check(ledger, sizes, in_making, in_use, seed):
    pages = [page for one in ledger.copies() for page in one.pages]
    assert len(pages) == len({*pages}), f"seed {seed}: two models share a page"
    assert all(0 <= page < NUM_PAGES for page in pages), seed
    assert ledger.used_bytes == len(pages) * PAGE, seed
    assert ledger.used_bytes + ledger.free_bytes == ledger.budget_bytes, seed
    for one in ledger.copies():
        assert PAGE * (len(one.pages) - 1) < sizes[one.name] <= one.size_bytes, seed
        assert one.users == in_use.get(one.name, 0) + (one.name in in_making), seed
        assert one.is_whole == (one.name not in in_making), seed


def test_models_on_the_device_lose_their_copies_first_then_the_oldest():
    ledger = HostLedger(3 * PAGE, PAGE)
    for moment, name in enumerate("abc"):
        ledger.admit(name, PAGE, float(moment))
        ledger.settle(name)
    for name in "ab":
        ledger.move(name, 5.0 + ord(name), is_on_device=False)
    assert ledger.find_room(PAGE) == ("c",)
    assert ledger.find_room(2 * PAGE) == ("c", "a")
    ledger.use("c")
    assert ledger.find_room(PAGE) == ("a",)
    assert ledger.find_room(3 * PAGE) is None
    ledger.release("c")
    assert ledger.find_room(4 * PAGE) is None


def test_a_page_that_was_used_is_used_again_before_a_new_one():
    ledger = HostLedger(100 * PAGE, PAGE)
    first = ledger.admit("a", 3 * PAGE, 0.0).pages
    ledger.remove("a")
    assert {*ledger.admit("b", 2 * PAGE, 1.0).pages} < {*first}


def test_no_budget_no_room():
    ledger = HostLedger(0, PAGE)
    assert ledger.find_room(1) is None
    assert ledger.budget_bytes == ledger.used_bytes == 0
