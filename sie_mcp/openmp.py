"""How a library's threads wait for their next piece of work. Call before torch is imported."""

import os

# Some tenths of a millisecond, which is what lies between the pieces of one forward pass.
SPIN_COUNT = "10000"


def wait_shortly(*, spins: bool) -> None:
    """Have OpenMP's threads sleep soon after a piece of work, unless the environment says how.

    By default they turn in a circle for some milliseconds, on processors that other processes wait
    for. OpenMP reads this as it is loaded, which torch's import does.

    Args:
        spins: A short while, as quiet processors want it (evals/LOG.md 25). Not at all where other
            threads, as those of OpenVINO, compute between the pieces.
    """
    if os.environ.get("OMP_WAIT_POLICY") or os.environ.get("GOMP_SPINCOUNT"):
        return
    if spins:
        os.environ["GOMP_SPINCOUNT"] = SPIN_COUNT
    else:
        os.environ["OMP_WAIT_POLICY"] = "passive"
