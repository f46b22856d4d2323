"""What goes wrong by a real broker: it restarts, a request is lethal, late, unwanted, too many."""

import anyio
import numpy as np
import pytest

pytest.importorskip("nats")

from sie_mcp import wire
from sie_mcp.broker.messages import ID, REASON, REPLY, Answer, error_answer
from sie_mcp.broker.names import DEAD_STREAM, subject_of
from sie_mcp.errors import BacklogFull, DeadlineExceeded, InferenceError, WorkerLost
from tests.cluster.conftest import until
from tests.cluster.queueing import app_client, broker, queue, result_of
from tests.toys import toy_vector

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

BODY = {"items": [{"text": "text"}]}
JOB = {"Prefer": "respond-async"}


async def test_jobs_outlive_the_gateway_and_a_restart_of_the_broker(tmp_path):
    async with queue(tmp_path, count=1) as found:
        told = []
        [worker] = found.workers
        worker.loader.gate.clear()
        async with app_client(found, queue_for="asked") as http:
            for number in range(10):
                body = {"items": [{"text": f"text {number}"}]}
                answer = await http.post("/v1/encode/org/m", json=body, headers=JOB)
                told.append(answer.headers["Location"])
        # The gateway has gone; now the broker does, and comes back.
        found.server.kill()
        await found.start_broker()
        worker.loader.gate.set()
        async with app_client(found, queue_for="asked") as http:
            for number, location in enumerate(told):
                answer = (await result_of(http, location)).json()
                vector = answer["items"][0]["dense"]["values"]
                assert vector == toy_vector(f"text {number}").tolist()
        assert worker.loader.loads.count("org/m") == 1


async def test_calls_outlive_a_restart_of_the_broker(tmp_path):
    async with queue(tmp_path, count=1) as found, found.gateway() as (endpoint, client):
        [worker] = found.workers
        worker.loader.gate.clear()
        answers = []

        async def ask(text: str) -> None:
            answers.append(await client.encode("org/m", [wire.Item(text=text)]))

        async with anyio.create_task_group() as group:
            for number in range(5):
                group.start_soon(ask, f"{number}")
            await until(lambda: len(endpoint.sender._sent) == 5)
            found.server.kill()
            await found.start_broker()
            worker.loader.gate.set()
        assert len(answers) == 5


async def test_a_lethal_request_is_buried_after_five_runs_and_takes_none_along(tmp_path):
    async with queue(tmp_path, count=1) as found, found.gateway() as (_, client):
        runner = found.workers[0].worker.pulling._runner
        run, runs = runner._run, []

        async def fragile(call, left_s) -> Answer:
            if b"lethal" not in call.body:
                return await run(call, left_s)
            runs.append(call)
            return error_answer(WorkerLost("the worker ended"))

        runner._run = fragile
        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(client.encode, "org/m", [wire.Item(text=f"{number}")])
            with pytest.raises(InferenceError, match="time and again"):
                await client.encode("org/m", [wire.Item(text="lethal")])
        assert len(runs) == 5
        async with broker(found) as onlooker:
            streams = onlooker._link.streams
            [letter] = [await streams.get_msg(DEAD_STREAM, 1)]
            assert (await streams.stream_info(DEAD_STREAM)).state.messages == 1
            assert b"lethal" in letter.data
            assert "handed out 4 times" in letter.headers[REASON]
            assert await onlooker.backlog("default") == {}


async def test_what_no_worker_can_read_is_buried_and_answered(tmp_path):
    async with queue(tmp_path, count=1) as found, found.gateway() as (_, client):
        await client.encode("org/m", [wire.Item(text="x")])
        async with broker(found) as onlooker:
            heard: list[bytes] = []

            async def hear(data: bytes, _) -> None:
                heard.append(data)

            inbox = onlooker.inbox()
            await onlooker.hear(inbox, hear)
            subject = subject_of("calls", "default", "work", "org%2Fm")
            await onlooker.put(subject, b"\xc1", {ID: "1", REPLY: inbox})
            await until(lambda: bool(heard))
            assert b"no message of this version" in heard[0]
            letter = await onlooker._link.streams.get_msg(DEAD_STREAM, 1)
            assert letter.data == b"\xc1"


async def test_a_request_that_is_too_late_is_not_run_and_says_so(tmp_path):
    async with queue(tmp_path, count=1) as found, app_client(found) as http:
        [worker] = found.workers
        worker.loader.gate.clear()
        first = await http.post("/v1/encode/org/m", json=BODY, headers=JOB)
        late = await http.post(
            "/v1/encode/org/m", json=BODY, headers=JOB | {"X-SIE-Timeout": "0.1"}
        )
        answer = await result_of(http, late.headers["Location"])
        assert answer.status_code == 504
        assert answer.headers["X-SIE-Error-Code"] == DeadlineExceeded.code
        worker.loader.gate.set()
        assert (await result_of(http, first.headers["Location"])).status_code == 200


async def test_a_full_stream_refuses_with_429_and_takes_requests_again(tmp_path):
    async with queue(tmp_path, count=1) as found, app_client(found, queue_max_messages=4) as http:
        [worker] = found.workers
        worker.loader.gate.clear()
        told = [await http.post("/v1/encode/org/m", json=BODY, headers=JOB) for _ in range(6)]
        assert [one.status_code for one in told] == [202] * 4 + [429] * 2
        assert told[-1].headers["X-SIE-Error-Code"] == BacklogFull.code
        assert told[-1].headers["Retry-After"]
        worker.loader.gate.set()
        for one in told[:4]:
            assert (await result_of(http, one.headers["Location"])).status_code == 200
        again = await http.post("/v1/encode/org/m", json=BODY, headers=JOB)
        assert (await result_of(http, again.headers["Location"])).status_code == 200


async def test_what_nobody_waits_for_leaves_the_stream_and_the_worker(tmp_path):
    async with queue(tmp_path, count=1) as found, found.gateway() as (_, client):
        [worker] = found.workers
        worker.loader.gate.clear()
        running = worker.worker.pulling._runner._running
        async with anyio.create_task_group() as group:
            for _ in range(12):
                group.start_soon(client.encode, "org/m", [wire.Item(text="x")])
            await until(lambda: len(running) == 8)
            group.cancel_scope.cancel()
        await until(lambda: not running)
        async with broker(found) as onlooker:
            with anyio.fail_after(60):
                while await onlooker.backlog("default"):
                    await anyio.sleep(0.02)
        worker.loader.gate.set()


async def test_a_job_is_one_by_its_key_can_be_cancelled_and_read_by_its_owner(tmp_path):
    async with queue(tmp_path, count=1) as found, app_client(found) as http:
        [worker] = found.workers
        worker.loader.gate.clear()
        headers = JOB | {"Idempotency-Key": "once"}
        told = [await http.post("/v1/encode/org/m", json=BODY, headers=headers) for _ in range(3)]
        [location] = {one.headers["Location"] for one in told}
        other = await http.post("/v1/encode/org/m", json=BODY, headers=JOB)
        assert (await http.delete(other.headers["Location"])).status_code == 204
        assert (await http.get(other.headers["Location"])).status_code == 404
        assert (await http.get("/v1/jobs/none")).status_code == 404
        worker.loader.gate.set()
        assert (await result_of(http, location)).status_code == 200
        assert (await http.delete(location)).status_code == 204
        assert (await http.get(location)).status_code == 200


async def test_large_bodies_and_answers_go_beside_the_messages(tmp_path):
    text = "word " * 400_000
    async with queue(tmp_path, count=1) as found, app_client(found) as http:
        body = {"items": [{"text": text[:1_500_000]}]}
        answer = await http.post("/v1/encode/org/m", json=body)
        assert np.array_equal(
            answer.json()["items"][0]["dense"]["values"], toy_vector(text[:1_500_000])
        )
        many = {"items": [{"text": f"{number}"} for number in range(4_096)]}
        told = await http.post("/v1/encode/org/m", json=many | {"params": {}}, headers=JOB)
        result = await result_of(http, told.headers["Location"])
        assert len(result.json()["items"]) == 4_096


async def test_callers_tell_no_worker_what_to_pull_and_none_takes_another_pools_word(tmp_path):
    async with queue(tmp_path, count=1) as found, app_client(found) as http:
        wish = {"pool": "other", "tokens": ["m"], "lease_s": 5, "ack_wait_s": 5, "slots": 8}
        refused = await http.post("/v1/pull", json=wish)
        assert (refused.status_code, refused.headers["X-SIE-Error-Code"]) == (403, "NOT_ALLOWED")
        direct = await http.post(f"{found.workers[0].url}/v1/pull", json=wish)
        assert (direct.status_code, direct.headers["X-SIE-Error-Code"]) == (400, "INVALID_INPUT")
