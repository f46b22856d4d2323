"""Architectures: packed ids in, hidden states out; none knows a task."""
