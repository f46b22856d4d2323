"""What the engine does under load, as its callers see it: swaps, overload, soak and faults."""
