"""The file of measured batch sizes: kept in one step, passed over where it is not ours, told of."""

from sie_mcp.catalogue import batch_sizes
from sie_mcp.catalogue.batch_sizes import Measured
from sie_mcp.config import Config
from sie_mcp.doctor import storage


def test_a_file_that_is_not_ours_is_passed_over_and_replaced(tmp_path, caplog):
    path = tmp_path / batch_sizes.FILE
    assert batch_sizes.read(tmp_path) == []
    # Of a version that believed the first measurement, whatever else ran meanwhile.
    early = (
        '{"measured": [{"model": "m", "revision": "r", "device": "d", "torch": "t", "tokens": 8}]}'
    )
    one = Measured(model="m", revision="r", device="d", torch="t", tokens=8, curve=((4, 2),))
    for content in ("{", '{"measured": [{}]}', early, "x" * (batch_sizes.MAX_BYTES + 1)):
        path.write_text(content)
        assert batch_sizes.read(tmp_path) == []
        assert "not used path=" in caplog.text
    batch_sizes.keep(tmp_path, one)
    batch_sizes.keep(tmp_path, one.model_copy(update={"tokens": 16}))
    assert [kept.tokens for kept in batch_sizes.read(tmp_path)] == [16]
    for number in range(batch_sizes.MAX_KEPT):
        batch_sizes.keep(tmp_path, one.model_copy(update={"revision": str(number)}))
    kept = batch_sizes.read(tmp_path)
    assert (len(kept), kept[0].revision, kept[-1].revision) == (256, "0", "255")


def test_another_process_that_writes_just_then_does_not_spoil_the_file(tmp_path):
    one = Measured(model="m", revision="r", device="d", torch="t", tokens=8)
    # What another is in the middle of, by the name that all would share.
    (tmp_path / f".{batch_sizes.FILE}.draft").mkdir()
    batch_sizes.keep(tmp_path, one)
    assert batch_sizes.read(tmp_path) == [one]
    assert len(list(tmp_path.iterdir())) == 2


def test_the_doctor_names_what_was_measured(tmp_path):
    config = Config(cache_dir=tmp_path)
    assert "none measured" in storage.batches(config)[0].text
    one = Measured(model="m", revision="r", device="a chip", torch="t", tokens=8_192)
    batch_sizes.keep(tmp_path, one)
    assert "m 8,192 (a chip)" in storage.batches(config)[0].text
    assert "set to 77" in storage.batches(Config(cache_dir=tmp_path, max_batch_tokens=77))[0].text
