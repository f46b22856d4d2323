"""GLiREL: which relations, named by the caller, hold between entities that the caller knows."""
