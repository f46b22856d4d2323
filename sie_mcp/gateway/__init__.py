"""The light side: MCP and HTTP fronts, routing, and the supervisor of the local worker."""
