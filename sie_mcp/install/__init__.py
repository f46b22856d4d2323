"""This server in the configuration of MCP clients: where their files lie and what goes in."""
