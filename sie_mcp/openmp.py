"""How a library's threads wait for their next piece of work. Call before torch is imported."""

import os


def wait_without_spinning() -> None:
    """Have OpenMP's threads sleep between pieces, unless the environment says otherwise.

    They would turn in a circle for some milliseconds, on processors that OpenVINO's threads or
    other processes wait for. OpenMP reads this as it is loaded, which torch's import does.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
