"""Workers as a console sees them."""

from sie_mcp.gateway.console.looks import SeenPool, SeenWorker
from sie_mcp.wire_memory import DeviceMemory, HostMemory, HostModel, MemoryAccount, ModelMemory


def worker(*names: str, host: tuple[str, ...] = (), is_ready: bool = True) -> SeenWorker:
    """A worker with models of 100 bytes on its device, and copies of some beside it."""
    models = [
        ModelMemory(name=name, device="cpu", state="loaded", size_bytes=100, unused_s=place)
        for place, name in enumerate(names)
    ]
    copies = [HostModel(name=name, size_bytes=50) for name in host]
    device = DeviceMemory(
        device="cpu",
        budget_bytes=1_000,
        reserved_bytes=10,
        resident_bytes=100 * len(models),
        free_bytes=0,
        queue_tokens=7,
        host=HostMemory(budget_bytes=500, resident_bytes=50 * len(copies), models=copies),
        models=models,
    )
    return SeenWorker("http://10.0.0.1:9000", is_ready, MemoryAccount(devices=[device]))


def pool(*workers: SeenWorker) -> SeenPool:
    return SeenPool("l4", list(workers), waiting=2, running=3)
