"""The worker: registry, memory, scheduler, device thread, HTTP."""
