"""The file of pools, and which pools a model has."""

import pytest

from sie_mcp.errors import SettingError
from sie_mcp.gateway.pool.plan import plan_of, read_plan

TEXT = """
default = "l4"
[pools.l4]
workers = ["dns://sie-l4:9000"]
slots = 32
[pools.spot]
workers = ["http://a:1", "http://b:1"]
[models]
"org/hot" = ["spot", "l4"]
"""


def test_a_model_has_its_own_pools_and_all_others_the_default(tmp_path):
    (tmp_path / "pools.toml").write_text(TEXT)
    plan = read_plan(tmp_path / "pools.toml")
    assert plan.pools["l4"].slots == 32
    assert plan.pools_of("org/hot", None) == ["spot", "l4"]
    assert plan.pools_of("org/other", None) == ["l4"]
    assert plan.pools_of("org/hot", "l4") == ["l4"]
    with pytest.raises(KeyError):
        plan.pools_of("org/hot", "h100")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (('default = "l4"', 'default = "a100"'), "no pool a100; there are: l4, spot"),
        (('["spot", "l4"]', '["spott"]'), "no pool spott"),
        (('["spot", "l4"]', "[]"), "leave it out for the default"),
        (("slots = 32", "slot = 32"), "slot"),
        (("slots = 32", "slots = 0"), "greater than or equal to 1"),
        (('["dns://sie-l4:9000"]', "[]"), "at least 1 item"),
        (("[models]", "[models"), "pools_file"),
    ],
)
def test_a_plan_that_does_not_fit_stops_the_start(tmp_path, change, says):
    (tmp_path / "pools.toml").write_text(TEXT.replace(*change))
    with pytest.raises(SettingError, match="pools_file") as refused:
        read_plan(tmp_path / "pools.toml")
    assert says in str(refused.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(SettingError, match=r"pools_file: .*nowhere.toml"):
        read_plan(tmp_path / "nowhere.toml")


def test_a_list_of_workers_is_one_pool():
    assert plan_of(["http://a:1"], 4).pools_of("m", None) == ["default"]
