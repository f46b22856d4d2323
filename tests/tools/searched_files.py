"""Files to search, and what of them was embedded."""

import os

from sie_mcp.tools.vectors import PROBE
from tests.tools.conftest import Toolbox

QUERY = "who painted the violet door"
FACT = "The violet door was painted by Anna."
DOORS: dict[str, str | bytes] = {
    "art/doors.md": f"# Doors\n\nMany are red.\n\n## Violet\n\n{FACT}\n",
    "roads.txt": "Roads are long.\n\nWeather is wet.\n",
    "code/door.py": "def paint(door):\n    return door.with_colour('green')\n",
}


def fill(toolbox: Toolbox, files: dict[str, str | bytes]) -> None:
    """Write files as they were an hour ago, so that their times say whether they changed."""
    for name, content in files.items():
        (toolbox.folder / name).parent.mkdir(parents=True, exist_ok=True)
        toolbox.write(name, content)
        os.utime(toolbox.folder / name, (1_700_000_000, 1_700_000_000))


def encoded(toolbox: Toolbox) -> list[str]:
    """All texts that were embedded since the last look, but the query and the probe."""
    texts = [
        text
        for primitive, _, sent in toolbox.worker.calls
        if primitive == "encode"
        for text in sent
    ]
    toolbox.worker.calls.clear()
    return [text for text in texts if text not in (QUERY, PROBE)]
