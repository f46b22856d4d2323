"""Workers of a Service, followed by a stub of the API: lists, watches, and all that breaks."""

from contextlib import asynccontextmanager
from dataclasses import replace

import anyio
import pytest
from starlette.responses import JSONResponse, Response

from sie_mcp.connection import Connections
from sie_mcp.errors import SettingError
from sie_mcp.gateway.pool.endpoint_slices import Service
from sie_mcp.gateway.pool.kubernetes_api import ApiError, ApiServer, session
from sie_mcp.gateway.pool.plan import Plan, PoolPlan
from sie_mcp.gateway.pool.pools import Pools
from sie_mcp.gateway.pool.service_members import MAX_PAUSE_S, ServiceMembers
from sie_mcp.gateway.pool.watch import Watch
from tests.gateway.pool.slices import (
    GONE,
    StubApi,
    bookmark,
    change,
    endpoint,
    slice_of,
)
from tests.scripted_worker import until

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

SERVICE = Service("models", "l4")
ONE, TWO = endpoint("10.0.0.1"), endpoint("10.0.0.2")


@asynccontextmanager
async def following(api: StubApi, folder):
    """Follow a stub; yield the members and how often they told of a change."""
    told: list[int] = []
    async with api.running(folder) as server, anyio.create_task_group() as group:
        members = ServiceMembers(SERVICE, server, first_pause_s=0.001)
        group.start_soon(members.follow, lambda: told.append(1))
        yield members, told
        group.cancel_scope.cancel()


def knows(members: ServiceMembers, *hosts: str):
    expected = [f"http://{host}:9000" for host in hosts]
    return lambda: [one.base_url for one in members._workers or ()] == expected


async def test_before_anything_was_heard_nothing_is_known(tmp_path):
    members = ServiceMembers(SERVICE, ApiServer("http://127.0.0.1:9", tmp_path))
    with pytest.raises(OSError, match="models/l4 is not known yet"):
        await members.now()


async def test_a_list_is_read_page_by_page_and_then_watched_from_there(tmp_path):
    api = StubApi(
        pages=[[slice_of(ONE)], [slice_of(TWO, name="l4-b")]],
        version="7",
    )
    async with following(api, tmp_path) as (members, told):
        await until(lambda: "watch" in api.kinds)
        assert knows(members, "10.0.0.1", "10.0.0.2")()
        assert await members.now() == members._workers
        assert told
    assert [(kind, place) for kind, place, _ in api.asked] == [
        ("list", ""),
        ("list", "1"),
        ("watch", "7"),
    ]
    assert {one["labelSelector"] for one in api.queries} == {"kubernetes.io/service-name=l4"}
    assert api.queries[-1]["allowWatchBookmarks"] == "1"


async def test_changes_are_heard_and_the_next_watch_goes_on_from_the_last(tmp_path):
    api = StubApi(pages=[[slice_of(ONE)]])
    api.streams = [
        [
            change("MODIFIED", slice_of(ONE, TWO, version="2")),
            change("ADDED", slice_of(endpoint("10.0.0.3"), name="l4-b", version="3")),
            change("DELETED", slice_of(ONE, TWO, version="4")),
            bookmark("9"),
        ]
    ]
    async with following(api, tmp_path) as (members, told):
        await until(lambda: api.kinds.count("watch") == 2)
        assert knows(members, "10.0.0.3")()
        assert len(told) == 4
    assert [place for kind, place, _ in api.asked if kind == "watch"] == ["1", "9"]
    assert api.kinds.count("list") == 1


@pytest.mark.parametrize("told_by", ["line", "status"])
async def test_what_is_too_old_to_go_on_from_is_listed_again(tmp_path, told_by):
    api = StubApi(pages=[[slice_of(ONE)]], updates=[([[slice_of(TWO)]], "20")])
    if told_by == "line":
        api.streams = [[GONE]]
    else:
        api.refusals = [api._list(0), JSONResponse({"code": 410}, 410)]
    async with following(api, tmp_path) as (members, _):
        await until(knows(members, "10.0.0.2"))
        await until(lambda: api.kinds.count("watch") == 2)
    assert api.kinds == ["list", "watch", "list", "watch"]
    assert api.asked[-1][1] == "20"


async def test_a_stream_that_breaks_is_taken_up_where_it_broke(tmp_path):
    api = StubApi(pages=[[slice_of(ONE)]])
    half = '{"type": "MODIFIED", "object": {"metad'
    api.streams = [[change("MODIFIED", slice_of(TWO, version="5")), half, RuntimeError]]
    async with following(api, tmp_path) as (members, _):
        await until(lambda: api.kinds.count("watch") == 2)
        assert knows(members, "10.0.0.2")()
    assert api.asked[-1][:2] == ("watch", "5")


async def test_streams_that_only_break_are_followed_by_a_list(tmp_path):
    api = StubApi(pages=[[slice_of(ONE)]], streams=[[RuntimeError], [RuntimeError]])
    async with following(api, tmp_path):
        await until(lambda: api.kinds.count("watch") == 3)
    assert api.kinds == ["list", "watch", "watch", "list", "watch"]


@pytest.mark.parametrize(
    "line", ["{no json", '{"type": "NEW", "object": {}}', '{"type": "ADDED", "object": {"a": 1}}',
             '{"type": "ERROR", "object": {"code": 500, "message": "etcd"}}']
)  # fmt: skip
async def test_what_cannot_be_read_is_said_and_asked_for_again(tmp_path, caplog, line):
    api = StubApi(pages=[[slice_of(ONE)]], streams=[[line + "\n"]])
    async with following(api, tmp_path) as (members, _):
        await until(lambda: api.kinds.count("watch") == 2)
        assert knows(members, "10.0.0.1")()
    assert "endpoint slices cannot be followed service=models/l4" in caplog.text


async def test_a_server_that_ends_each_watch_at_once_is_not_asked_in_a_circle(tmp_path, caplog):
    api = StubApi(pages=[[slice_of(ONE)]], streams=[[]])
    async with api.running(tmp_path) as server, anyio.create_task_group() as group:
        members = ServiceMembers(SERVICE, server, first_pause_s=60.0)
        group.start_soon(members.follow, lambda: None)
        await until(lambda: "ended as soon as it began" in caplog.text)
        group.cancel_scope.cancel()
    assert api.kinds == ["list", "watch"]


async def test_those_of_before_stay_while_the_api_refuses(tmp_path, caplog):
    refusal = JSONResponse({"message": "endpointslices is forbidden"}, 403)
    api = StubApi(pages=[[slice_of(ONE)]])
    api.refusals = [api._list(0), JSONResponse({"code": 410}, 410), refusal, refusal]
    async with following(api, tmp_path) as (members, _):
        await until(lambda: api.kinds.count("watch") == 2)
        assert knows(members, "10.0.0.1")()
    assert api.kinds == ["list", "watch", "list", "list", "list", "watch"]
    assert "403" in caplog.text
    assert "is forbidden" in caplog.text


async def test_a_token_that_was_renewed_is_used_for_the_next_connection(tmp_path):
    renewed = anyio.Event()
    api = StubApi(pages=[[slice_of(ONE)]], streams=[[renewed, GONE]])
    async with following(api, tmp_path):
        await until(lambda: "watch" in api.kinds)
        (tmp_path / "token").write_text("second")
        renewed.set()
        await until(lambda: api.kinds.count("watch") == 2)
    assert [(kind, token) for kind, _, token in api.asked] == [
        ("list", "first"),
        ("watch", "first"),
        ("list", "second"),
        ("watch", "second"),
    ]


async def test_a_list_without_end_is_cut_off(tmp_path, monkeypatch):
    monkeypatch.setattr("sie_mcp.gateway.pool.kubernetes_api.MAX_SLICES", 1)
    api = StubApi(pages=[[slice_of(ONE)], [slice_of(TWO, name="l4-b")]])
    async with api.running(tmp_path) as server, session(server, SERVICE) as asked:
        with pytest.raises(ApiError, match="more than 1 slices"):
            await asked.list()


async def test_a_line_without_end_is_cut_off(tmp_path, monkeypatch):
    monkeypatch.setattr("sie_mcp.gateway.pool.kubernetes_api.MAX_BYTES", 100)
    api = StubApi(streams=[["x" * 101, RuntimeError]])
    async with api.running(tmp_path) as server, session(server, SERVICE) as asked:
        with pytest.raises(ApiError, match="a line of more than 100 bytes"):
            async for _ in asked.watch("1"):
                pytest.fail("nothing was said")


async def test_a_server_says_itself_when_to_come_back(tmp_path):
    api = StubApi(refusals=[Response("slow down", 429, {"Retry-After": "3"})])
    async with api.running(tmp_path) as server, session(server, SERVICE) as asked:
        with pytest.raises(ApiError, match="429 slow down") as refused:
            await asked.list()
    members = ServiceMembers(SERVICE, server)
    assert 3.0 <= members._pause_s(refused.value) <= 4.5


def test_pauses_double_up_to_a_limit_and_have_chance_in_them(tmp_path):
    members = ServiceMembers(SERVICE, ApiServer("http://h", tmp_path))
    pauses = [members._pause_s(ApiError("no")) for _ in range(12)]
    for number, pause_s in enumerate(pauses):
        least_s = min(0.5 * 2**number, MAX_PAUSE_S)
        assert least_s <= pause_s <= 1.5 * least_s
    assert len(set(pauses)) == 12


async def test_credentials_that_cannot_be_read_are_an_error_of_the_moment(tmp_path):
    server = ApiServer("https://127.0.0.1:9", tmp_path)
    (tmp_path / "token").write_text("t")
    for broken in (server, replace(server, credentials=tmp_path / "nowhere")):
        with pytest.raises(ApiError, match="cannot be used"):
            async with session(broken, SERVICE):
                pytest.fail("connected")


def test_a_pool_of_a_service_without_a_token_stops_the_start(tmp_path):
    plan = Plan(pools={"default": PoolPlan(service="models/l4")})
    with pytest.raises(SettingError, match="mount one"):
        Pools(plan, Connections(timeout_s=1), api=ApiServer("http://h", tmp_path))


async def test_a_pool_knows_a_worker_as_soon_as_it_is_told(tmp_path, monkeypatch):
    """Not by the look that comes every so often."""
    monkeypatch.setattr("sie_mcp.gateway.pool.watch.MEMBERS_EVERY_S", 3_600.0)
    api = StubApi(pages=[[slice_of(endpoint("127.0.0.1", "zone-a"))]])
    connections = Connections(timeout_s=2.0)
    async with api.running(tmp_path) as server, anyio.create_task_group() as group:
        watch = Watch(ServiceMembers(SERVICE, server), connections, lambda: None)
        group.start_soon(watch.run)
        await until(lambda: list(watch.known) == ["http://127.0.0.1:9000"])
        assert watch.known["http://127.0.0.1:9000"].address.zone == "zone-a"
        group.cancel_scope.cancel()
    await connections.aclose()
