"""How long this process's threads waited for a processor that others had: from the kernel's files.

Knows files; knows no torch.
"""

from pathlib import Path

TASKS = Path("/proc/self/task")


def held_up_s(tasks: Path = TASKS) -> float | None:
    """Return the seconds so far, of all threads together; None where the kernel does not count.

    Those of threads that have ended are not in it: compare two moments of steady work.
    """
    waited_ns = None
    for path in tasks.glob("*/schedstat"):
        try:
            # Time on a processor, time waiting for one, turns.
            waited_ns = (waited_ns or 0) + int(path.read_text().split()[1])
        except (OSError, ValueError, IndexError):
            continue  # A thread that has just ended.
    return None if waited_ns is None else waited_ns / 1e9
