"""`python -m sie_mcp`: the command line."""

from sie_mcp.cli import main

main()
