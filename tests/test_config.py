"""Settings: from flags and the environment, with errors that name variable, value and neighbour."""

from pathlib import Path

import pytest

from sie_mcp.config import PREFIX, Config, load_config
from sie_mcp.errors import SettingError
from sie_mcp.setting_types import weights_of


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch, tmp_path):
    for name in Config.model_fields:
        monkeypatch.delenv(PREFIX + name.upper(), raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.mark.parametrize("name", sorted(Config.model_fields))
def test_every_setting_can_come_from_the_environment(monkeypatch, name):
    texts = {
        "device": "cpu", "dtype": "float16", "log_level": "ERROR", "offline": "true",
        "retry_nonfinite": "false", "gpu_paths": "kernels", "cpu_backend": "openvino",
        "allow_remote_code": "org/model", "hub_endpoint": "http://h",
        "worker_url": "http://h", "max_client_share": "0.25", "model_weights": "org/model=2",
        "kubernetes_url": "http://h",
        "eviction": "greedy_dual", "document_reader": "docling",
        "allow_model_control": "true",
        "allow_local_models": "true", "route_by_model": "true", "expose_metrics": "auth",
        "console": "true",
        "auth": "api-key", "resource_url": "http://h", "oauth_issuer": "http://h",
        "oauth_jwks_url": "http://h", "oauth_introspection_url": "http://h",
        "tracing": "off", "allowed_origins": "https://h",
        "results_uri": "redis://h", "default_models": "encode=m",
        "queue_uri": "nats://h", "queue_for": "all",
        "queue_replicas": "3", "queue_max_bytes": "2000000", "document_memory_bytes": "1000000000",
        "http_processes": "2",
    }  # fmt: skip
    default = Config.model_fields[name].get_default(call_default_factory=True, validated_data={})
    text = texts.get(name) or ("/somewhere" if name.endswith(("_dir", "_file")) else "1717")
    monkeypatch.setenv(PREFIX + name.upper(), text)
    assert getattr(load_config(), name) != default


def test_a_flag_wins_over_the_environment(monkeypatch):
    monkeypatch.setenv("SIE_MCP_PORT", "9000")
    assert load_config(port=None).port == 9000
    assert load_config(port=9001).port == 9001


def test_an_empty_variable_counts_as_not_set(monkeypatch):
    monkeypatch.setenv("SIE_MCP_PORT", "")
    assert load_config().port == 8080


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("SIE_MCP_LOG_LEVL", "debug", "SIE_MCP_LOG_LEVL='debug'; did you mean SIE_MCP_LOG_LEVEL?"),
        ("SIE_MCP_ALLOWED", "/x", "SIE_MCP_ALLOWED='/x'; did you mean SIE_MCP_ALLOW"),
        ("SIE_MCP_ZZZ", "1", "unknown setting SIE_MCP_ZZZ='1'"),
        ("SIE_MCP_PORT", "eighty", "SIE_MCP_PORT = 'eighty': Input should be a valid integer"),
        ("SIE_MCP_PORT", "70000", "less than or equal to 65535"),
        ("SIE_MCP_LOAD_WAIT_S", "0", "SIE_MCP_LOAD_WAIT_S = '0': Input should be greater than 0"),
        ("SIE_MCP_LOG_LEVEL", "loud", "'DEBUG', 'INFO', 'WARNING' or 'ERROR'"),
        ("SIE_MCP_WORKER_URL", "localhost:9", "a URL starts with http:// or https://"),
        ("SIE_MCP_ALLOW", '["/x', "SIE_MCP_ALLOW = '[\"/x': not a JSON array"),
        ("SIE_MCP_MODEL_WEIGHTS", "a=2,b", "'b' is not model=weight with a weight of 0.1 to 10"),
        ("SIE_MCP_MODEL_WEIGHTS", "a=11", "'a=11' is not model=weight"),
        ("SIE_MCP_MODEL_WEIGHTS", "=1", "'=1' is not model=weight"),
        ("SIE_MCP_ALLOWED_HOSTS", "*", "'*' is not a host as a request names it"),
        ("SIE_MCP_ALLOWED_HOSTS", "*.example.org", "is not a host"),
        ("SIE_MCP_ALLOWED_HOSTS", "https://a", "is not a host"),
        ("SIE_MCP_ALLOWED_ORIGINS", "example.org", "is not an origin such as https://"),
        ("SIE_MCP_ALLOWED_ORIGINS", "https://*.a", "is not a host"),
        ("SIE_MCP_GPU_PATHS", "kernels,fast", "'kernels', 'graphs' or 'overlap'"),
        ("SIE_MCP_AUTH", "basic", "'none', 'api-key' or 'oauth'"),
        ("SIE_MCP_QUEUE_URI", "amqp://h", "the URI of a NATS server is nats://host:4222"),
        ("SIE_MCP_QUEUE_URI", "nats://", "the URI of a NATS server is nats://host:4222"),
        ("SIE_MCP_QUEUE_URI", "http://me:secret@h", "SIE_MCP_QUEUE_URI = 'http:…': the URI"),
        ("SIE_MCP_QUEUE_FOR", "some", "'bulk', 'all' or 'asked'"),
        ("SIE_MCP_CACHE_DIR", "~no-such-user/x", "SIE_MCP_CACHE_DIR = "),
    ],
)
def test_a_wrong_setting_is_named_with_its_value_in_one_line(monkeypatch, variable, value, message):
    monkeypatch.setenv(variable, value)
    with pytest.raises(SettingError) as raised:
        load_config()
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_two_wrong_settings_are_both_named(monkeypatch):
    monkeypatch.setenv("SIE_MCP_PORT", "x")
    monkeypatch.setenv("SIE_MCP_MAX_ITEMS", "0")
    with pytest.raises(SettingError, match=r"MAX_ITEMS = .*; setting SIE_MCP_PORT = "):
        load_config()


def test_an_unknown_flag_is_refused():
    with pytest.raises(SettingError, match="did you mean SIE_MCP_PORT"):
        load_config(prt=1)


def test_faster_ways_are_all_of_them_some_or_none(monkeypatch):
    assert load_config().gpu_paths == ("kernels", "graphs", "overlap")
    for text, paths in (("none", ()), ("overlap, kernels", ("overlap", "kernels"))):
        monkeypatch.setenv("SIE_MCP_GPU_PATHS", text)
        assert load_config().gpu_paths == paths
    monkeypatch.setenv("SIE_MCP_GPU_PATHS", "none,kernels")
    with pytest.raises(SettingError, match="'kernels', 'graphs' or 'overlap'"):
        load_config()


@pytest.mark.parametrize("text", ["/a:/b", '["/a", "/b"]', " /a : /b :"])
def test_folders_are_given_as_in_path_or_as_json(monkeypatch, text):
    monkeypatch.setenv("SIE_MCP_ALLOW", text)
    assert load_config().allow == (Path("/a"), Path("/b"))


@pytest.mark.parametrize("text", ["[::1]:*, sie:8080", '["[::1]:*", "sie:8080"]'])
def test_hosts_are_given_with_commas_or_as_json(monkeypatch, text):
    monkeypatch.setenv("SIE_MCP_ALLOWED_HOSTS", text)
    assert load_config().allowed_hosts == ("[::1]:*", "sie:8080")


def test_paths_start_from_home_or_from_here(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SIE_MCP_CACHE_DIR", "~/models")
    config = load_config(runtime_dir=Path("run"), allow=(Path("."), Path("~/data")))
    assert config.cache_dir == tmp_path / "models"
    assert config.runtime_dir == tmp_path / "run"
    assert config.allow == (tmp_path, tmp_path / "data")


def test_tools_may_use_the_current_folder_unless_told_otherwise(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert load_config().allow == (tmp_path,)


def test_another_users_login_folder_is_not_used(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "gone"))
    assert not load_config().runtime_dir.is_relative_to(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert load_config().runtime_dir == tmp_path / "sie-mcp"


def test_settings_do_not_change():
    with pytest.raises(ValueError, match="frozen"):
        load_config().port = 1


def test_weights_of_models_are_numbers_by_name():
    config = Config(model_weights=("bge-m3=2", "org/a=b=0.5"))
    assert weights_of(config.model_weights) == {"bge-m3": 2.0, "org/a=b": 0.5}
