"""When the heap is tidied: after work, and not often."""

import resource
import subprocess
import sys

import pytest

from sie_mcp.engine import heap as heap_module
from sie_mcp.engine.heap import EVERY_S, Heap, _glibc_trim


def test_the_heap_is_tidied_after_work_and_seldom():
    now, trims = [0.0], []
    heap = Heap(lambda: trims.append(now[0]), lambda: now[0])
    heap.tidy(was_used=True)
    assert trims == []
    now[0] = EVERY_S
    heap.tidy(was_used=False)
    assert trims == [EVERY_S]
    for part in (0.2, 0.5, 0.9):
        now[0] = (1 + part) * EVERY_S
        heap.tidy(was_used=True)
    assert len(trims) == 1
    now[0] = 3 * EVERY_S
    heap.tidy(was_used=False)
    heap.tidy(was_used=False)
    now[0] = 9 * EVERY_S
    heap.tidy(was_used=False)
    assert trims == [EVERY_S, 3 * EVERY_S]


def test_the_c_library_of_this_machine_can_be_asked():
    _glibc_trim()()


def test_what_is_free_and_then_code_is_given_back_together(monkeypatch):
    done = []
    monkeypatch.setattr(heap_module, "_glibc_trim", lambda: lambda: done.append("heap"))
    monkeypatch.setattr(heap_module.CodePages, "tidy", lambda _: done.append("code"))
    now = [0.0]
    heap = Heap(clock=lambda: now[0])
    now[0] = EVERY_S
    heap.tidy(was_used=True)
    assert done == ["heap", "code"]


# Allocates and frees the same again and again, and says how many pages each round brought: the
# heap takes a few rounds until it has grown to what is wanted.
ROUNDS = """
import resource, torch
from sie_mcp.engine.heap import keep_freed

keep_freed(2)
for _ in range(10):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    held = [torch.ones(24 * 1024**2, dtype=torch.uint8) for _ in range(3)]
    del held
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's heap")
def test_what_a_batch_has_freed_is_at_hand_for_the_next():
    """In a process of its own: it counts before there are other threads."""
    told = subprocess.run(
        [sys.executable, "-c", ROUNDS], check=True, timeout=60, capture_output=True, text=True
    )
    first, *_, last = map(int, told.stdout.split())
    size_pages = 24 * 1024**2 // resource.getpagesize()
    assert last < size_pages // 4
    assert first > size_pages  # It would be seen.


# Has several threads allocate at once, then writes what the C library says of its arenas.
THREADS = """
import ctypes, sys, threading, torch
from sie_mcp.engine.heap import keep_freed

def work():
    held = [torch.ones(1024**2, dtype=torch.uint8) for _ in range(4)]
    all_hold.wait(30)

keep_freed(int(sys.argv[2]))
all_hold = threading.Barrier(4)
threads = [threading.Thread(target=work) for _ in range(4)]
for one in threads:
    one.start()
for one in threads:
    one.join()
library = ctypes.CDLL(None)
library.fopen.restype = ctypes.c_void_p
file = ctypes.c_void_p(library.fopen(sys.argv[1].encode(), b"w"))
library.malloc_info(0, file)
library.fclose(file)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's heap")
@pytest.mark.parametrize(("num_threads", "num_arenas"), [(1, 1), (2, 1), (4, 2)])
def test_two_threads_share_an_arena(tmp_path, num_threads, num_arenas):
    info = tmp_path / "info.xml"
    run = [sys.executable, "-c", THREADS, str(info), str(num_threads)]
    subprocess.run(run, check=True, timeout=60)
    assert info.read_text().count("<heap nr=") == num_arenas
