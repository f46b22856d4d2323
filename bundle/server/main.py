"""The bundle's program: its arguments are the folders that the user chose."""

import sys

from sie_mcp.cli import main

folders = [part for folder in sys.argv[1:] for part in ("--allow", folder)]
sys.argv[1:] = ["stdio", *folders]
main()
