"""Agents of four frameworks that use the tools: `python -m examples.NAME`, see docs/agents.md."""
