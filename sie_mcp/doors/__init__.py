"""Processes that read HTTP for a worker on a port, so that its own can run models."""
