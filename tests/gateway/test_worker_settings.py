"""What a local worker is told of a gateway's settings, and which gateways share one."""

import pytest

from sie_mcp.config import Config, load_config
from sie_mcp.gateway.worker_settings import worker_environment, worker_name

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("settings", "is_shared"),
    [
        ({"log_level": "DEBUG"}, True),
        ({"load_wait_s": 1.0}, True),
        ({"allow": ("/",)}, True),
        ({"device": "cuda"}, False),
        ({"cache_dir": "/elsewhere"}, False),
        ({"allow_remote_code": ("org/model",)}, False),
        ({"max_batch_tokens": 1}, False),
    ],
)
def test_only_gateways_that_want_the_same_worker_share_one(settings, is_shared):
    assert (worker_name(Config(**settings)) == worker_name(Config())) == is_shared


def test_the_worker_reads_the_settings_that_it_is_given(monkeypatch):
    for names in ((), ("org/model", "other")):
        config = Config(allow_remote_code=names)
        for variable, value in worker_environment(config).items():
            monkeypatch.setenv(variable, value)
        assert load_config().allow_remote_code == names


def test_another_version_is_another_worker(monkeypatch):
    before = worker_name(Config())
    monkeypatch.setattr("sie_mcp.__version__", "99.0")
    assert worker_name(Config()) != before
