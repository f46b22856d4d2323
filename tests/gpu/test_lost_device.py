"""A device that an assert in a kernel has taken away, in a process that may lose its own."""

import subprocess
import sys

SCRIPT = """
import torch
from sie_mcp.engine.device_faults import is_device_lost, is_out_of_memory

cuda = torch.device("cuda", 0)
table = torch.zeros(2, device=cuda)
assert not is_device_lost(RuntimeError("shapes do not fit"), cuda)
try:
    table[torch.tensor([5], device=cuda)].sum().item()
except RuntimeError as error:
    assert is_device_lost(error, cuda), error
    assert not is_out_of_memory(error)
else:
    raise SystemExit("the kernel did not assert")
# Whatever words come next, the device does not answer.
assert is_device_lost(RuntimeError("shapes do not fit"), cuda)
print("lost", flush=True)
"""


def test_an_assert_in_a_kernel_loses_the_device_and_an_error_of_shapes_does_not():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=110
    )
    assert done.stdout.strip().endswith("lost"), done.stderr[-2000:]
