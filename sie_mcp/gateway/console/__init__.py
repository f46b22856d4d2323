"""The web console: pages that show workers and their models, and try tools."""
