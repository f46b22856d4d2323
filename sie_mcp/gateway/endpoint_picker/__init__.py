"""The choice of a worker as a service for proxies: Envoy asks, and sends the request itself."""
