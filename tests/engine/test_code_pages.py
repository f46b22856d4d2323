"""Code that only a start has run leaves memory, once, and comes back when it is run."""

import sys

import pytest
import torch

from sie_mcp.engine import code_pages
from sie_mcp.engine.code_pages import (
    WORTH_BYTES,
    CodePages,
    _clean_code,
    give_back_code,
    mapped_bytes,
)

SMAPS = """\
7f0000000000-7f0000400000 r-xp 00000000 08:01 42                         /lib/large.so
Size:               4096 kB
Rss:                4096 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
7f0000400000-7f0000800000 r-xp 00000000 08:01 43                         /lib/patched.so
Rss:                4096 kB
Anonymous:             4 kB
7f0000800000-7f0000801000 r-xp 00000000 08:01 44                         /lib/small.so
Anonymous:             0 kB
7f0000900000-7f0000d00000 rw-p 00400000 08:01 42                         /lib/large.so
Anonymous:             0 kB
7f0000e00000-7f0001200000 r--p 00000000 08:01 45                         /models/weights
Anonymous:             0 kB
7f0001200000-7f0001600000 r-xp 00000000 00:00 0
Anonymous:             0 kB
7f0001600000-7f0001a00000 r-xp 00000000 00:00 0                          [vdso]
Anonymous:             0 kB
7f0002000000-7f0002400000 r-xp 00000000 08:01 46                         /lib/of a space.so
Anonymous:             0 kB
"""
on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux alone has them")


def test_only_large_code_of_files_that_nobody_wrote_to_is_given_back():
    assert list(_clean_code(SMAPS.splitlines())) == [
        (0x7F0000000000, 0x7F0000400000),
        (0x7F0002000000, 0x7F0002400000),
    ]


def test_it_is_given_back_where_that_is_worth_it_and_not_what_batches_need():
    resident, given = [WORTH_BYTES + 1], []

    def give_back():
        given.append(resident[0])
        resident[0] = 7

    pages = CodePages(give_back, lambda: resident[0])
    pages.tidy()
    assert given == [WORTH_BYTES + 1]
    needed = 2 * WORTH_BYTES
    for now in (needed, needed + WORTH_BYTES, needed + WORTH_BYTES + 1, 9 * needed, 9 * needed):
        resident[0] = now
        pages.tidy()
    assert given == [WORTH_BYTES + 1, needed + WORTH_BYTES + 1]


def test_little_is_left_where_it_is():
    given = []
    CodePages(lambda: given.append(1), lambda: WORTH_BYTES).tidy()
    assert given == []


@on_linux
def test_code_that_was_given_back_is_run_again_and_computes_the_same():
    x = torch.arange(4096, dtype=torch.float32).reshape(64, 64) / 4096
    before, resident = torch.softmax(x @ x, dim=-1), mapped_bytes()
    assert give_back_code() > 0
    assert 0 < mapped_bytes() < resident
    assert torch.equal(torch.softmax(x @ x, dim=-1), before)


def test_other_systems_have_nothing_to_give_back(monkeypatch):
    monkeypatch.setattr(code_pages.sys, "platform", "darwin")
    assert (mapped_bytes(), give_back_code()) == (0, 0)
