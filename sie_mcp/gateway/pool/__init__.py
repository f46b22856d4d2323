"""Several workers behind one gateway: who is there, who holds what, and who gets a request."""
