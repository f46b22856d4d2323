"""An emulator of the API of Kubernetes, as a program: prints its URL and serves until stdin ends.

Runs in the environment that `make chart` makes: as a plugin of pytest the emulator would want
others that this project does not use.
"""

import asyncio
import sys

import kmock

VERBS = {"get", "list", "watch", "create", "patch", "delete"}
SLICES = kmock.ResourceInfo(
    kind="EndpointSlice",
    namespaced=True,
    singular="endpointslice",
    shortnames=set(),
    verbs=VERBS,
    categories=set(),
    subresources=set(),
)


async def main() -> None:
    async with kmock.KubernetesEmulator() as emulator, kmock.Server(emulator) as server:
        emulator.resources["discovery.k8s.io/v1/endpointslices"] = SLICES
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
