"""Requests that a worker pulls from a broker, beside those that come over HTTP."""
