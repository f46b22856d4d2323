"""What SIE's SDK asks of a gateway's health: how many workers there are, and what they hold.

Counts alone: whoever asks need not have shown who it is. No addresses, no names of models.
"""

from collections.abc import Sequence
from typing import Any

from sie_mcp.gateway.console.looks import SeenPool, SeenWorker

# A device that is none of these is a GPU.
_NO_GPU = ("cpu", "mps")


def health_of(pools: Sequence[SeenPool], *, is_ready: bool) -> dict[str, Any]:
    """Return the body; "gateway" is what the SDK knows a gateway by."""
    seen = [(pool.name, worker) for pool in pools for worker in pool.workers]
    ready = [worker for _, worker in seen if worker.is_ready]
    kinds = sorted({kind for worker in ready for kind in _gpus(worker)})
    return {
        "type": "gateway",
        "status": "healthy" if is_ready else "draining",
        "cluster": {
            "worker_count": len(ready),
            "gpu_count": sum(len(_gpus(worker)) for worker in ready),
            "models_loaded": len({name for worker in ready for name in _loaded(worker)}),
        },
        "workers": [
            {
                "pool": pool,
                "healthy": worker.is_ready,
                "gpu_count": len(_gpus(worker)),
                "models_loaded": len(_loaded(worker)),
            }
            for pool, worker in seen
        ],
        "configured_gpu_types": kinds,
        "live_gpu_types": kinds,
    }


def _gpus(worker: SeenWorker) -> list[str]:
    """Return the kind of each GPU."""
    if worker.account is None:
        return []
    kinds = [device.device.partition(":")[0] for device in worker.account.devices]
    return [kind for kind in kinds if kind not in _NO_GPU]


def _loaded(worker: SeenWorker) -> set[str]:
    if worker.account is None:
        return set()
    models = [model for device in worker.account.devices for model in device.models]
    return {model.name for model in models if model.state == "loaded"}
