"""The settings by what they are about. `sie_mcp.config` puts them together and reads them."""
