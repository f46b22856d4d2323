"""Our own server under the protocol's conformance suite; what does not apply is in the docs.

Every scenario of both eras runs against the product's HTTP front, with its defaults.
"""

import re

import pytest

from tests.conformance.fixtures import serving_scenarios
from tests.conformance.suite import REVISIONS, ROOT, Missing, Suite, find_suite, not_passed

pytestmark = pytest.mark.anyio

PAGE = (ROOT / "docs" / "conformance.md").read_text()
ROW = re.compile(r"^\| (\S+) \| `([\w:-]+)` \| (fails|warns|skipped|not run) \| .{20,} \|$", re.M)
DOCUMENTED = {(revision, name): outcome for revision, name, outcome in ROW.findall(PAGE)}
# So that a suite which ran nothing does not pass.
LEAST_SCENARIOS, LEAST_CHECKS = 30, 50


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def suite() -> Suite:
    try:
        return find_suite()
    except Missing as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("revision", REVISIONS)
async def test_every_scenario_that_applies_passes_and_the_others_are_documented(suite, revision):
    async with serving_scenarios() as url:
        checks = await suite.run(url, revision)
    messages = [f"{one.scenario}: {one.name}: {one.message}" for one in checks if one.message]
    documented = {key: how for key, how in DOCUMENTED.items() if key[0] == revision}
    assert not_passed(revision, checks) == documented, "\n".join(messages)
    assert len({check.scenario for check in checks}) >= LEAST_SCENARIOS
    assert sum(check.status == "SUCCESS" for check in checks) >= LEAST_CHECKS


async def test_the_scenarios_of_extensions_are_documented_as_not_run(suite):
    documented = {name for (revision, name) in DOCUMENTED if revision == "extension"}
    assert documented == await suite.extensions()


def test_every_line_of_the_documents_table_is_understood():
    lines = [line for line in PAGE.splitlines() if line.startswith("| ")]
    assert len(lines) == len(DOCUMENTED) + 1
