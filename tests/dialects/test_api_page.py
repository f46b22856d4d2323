"""docs/api.md: its examples run, and it names every route, header and limit."""

import asyncio
import json
import re
import shutil
from pathlib import Path

import pytest

from sie_mcp.dialects import native
from sie_mcp.dialects.table import OPERATIONS
from tests.dialects.rig import gateway, worker

pytestmark = pytest.mark.anyio
PAGE = (Path(__file__).parents[2] / "docs" / "api.md").read_text()
COMMANDS = [
    command.replace("curl -s", "curl -s --fail-with-body --max-time 60")
    for block in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
    for command in re.findall(r"^(?:curl|echo)(?:.*\\\n)*.*$", block, re.MULTILINE)
]


@pytest.mark.skipif(shutil.which("curl") is None, reason="the examples are curl's")
async def test_every_example_is_answered(folder, catalogue):
    assert len(COMMANDS) > 15
    async with worker(folder, catalogue) as worker_url, gateway(worker_url) as url:
        for command in COMMANDS:
            here = command.replace("http://localhost:8080", url).replace("bge-m3", "m3")
            pipe = asyncio.subprocess.PIPE
            program = await asyncio.create_subprocess_shell(here, stdout=pipe, stderr=pipe)
            async with asyncio.timeout(90):
                out, err = await program.communicate()
            assert program.returncode == 0, (command, out, err)
            assert json.loads(out), command


@pytest.mark.parametrize(
    "name",
    sorted(
        {path for one in OPERATIONS for path in one.paths}
        | {one.path for one in native.ROUTES if not one.path.endswith(("pin", "load"))}
        | {"X-SIE-Model", "X-SIE-Input-Type", "X-SIE-Units-Input-Tokens", "X-SIE-Timeout"}
        | {"X-SIE-Cache", "X-SIE-Model-Revision", "SIE_MCP_EMBEDDING_CACHE_FILE"}
        | {"X-SIE-Truncated-Items", "X-SIE-Ignored-Fields", "X-SIE-Error-Code"}
    ),
)
def test_the_page_names_what_there_is(name):
    assert f"`{name}" in PAGE or f" {name}`" in PAGE
