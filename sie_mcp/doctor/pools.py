"""The workers of pools elsewhere: whether they are ready. Starts none."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import anyio
import httpx2

from sie_mcp.catalogue.patience import within
from sie_mcp.config import Config
from sie_mcp.connection import Address
from sie_mcp.doctor.findings import Finding, Verdict
from sie_mcp.doctor.network import without_secret
from sie_mcp.gateway.pool.members import make_members
from sie_mcp.gateway.pool.plan import Plan, PoolPlan, plan_of, read_plan

LIMIT_S: Final = 3.0
MAX_LOOKED_AT: Final = 16


def pools(config: Config) -> list[Finding]:
    """Ask the workers of every pool whether they are ready.

    Raises:
        SettingError: the file of pools, or what names workers, is wrong.
    """
    plan = _plan(config)
    return [_pool(name, pool) for name, pool in plan.pools.items()]


def status(transport: httpx2.HTTPTransport, base_url: str) -> str:
    """Return what a worker or gateway says of itself.

    Raises:
        TimeoutError, httpx2.HTTPError, OSError: it does not answer.
    """
    with httpx2.Client(transport=transport, timeout=LIMIT_S) as http:
        response = within(LIMIT_S + 1, lambda: http.get(f"{base_url}/readyz"))
    try:
        return str(response.json()["status"])
    except (ValueError, LookupError, TypeError):
        return f"something else (HTTP {response.status_code})"


def _plan(config: Config) -> Plan:
    if config.pools_file is not None:
        return read_plan(config.pools_file)
    return plan_of(list(config.workers), config.worker_slots)


def _pool(name: str, pool: PoolPlan) -> Finding:
    title = f"pool {name}"
    if pool.service is not None:
        text = f"gateways follow Service {pool.service} by Kubernetes' API; not looked at here"
        return Finding(title, "ok", text)
    shown = ", ".join(without_secret(url) for url in pool.workers[:MAX_LOOKED_AT])
    members = make_members(pool.workers)
    try:
        addresses = within(LIMIT_S, lambda: anyio.run(members.now))
    except (TimeoutError, OSError) as error:
        return Finding(title, "fail", f"{shown} cannot be looked up ({error})", "check the name")
    if not addresses:
        fix = "check the name, unless the pool sleeps"
        return Finding(title, "warn", f"{shown} has no address", fix)
    return _asked(title, addresses)


def _asked(title: str, addresses: Sequence[Address]) -> Finding:
    looked_at = addresses[:MAX_LOOKED_AT]
    with ThreadPoolExecutor(len(looked_at)) as threads:
        complaints = [one for one in threads.map(_complaint, looked_at) if one]
    num_ready = len(looked_at) - len(complaints)
    text = f"{num_ready} of {len(looked_at)} workers ready"
    if len(addresses) > len(looked_at):
        text += f", {len(addresses) - len(looked_at)} more not looked at"
    if not complaints:
        return Finding(title, "ok", text)
    fix = "start them (`sie-mcp worker --port N`), or change what names them"
    verdict: Verdict = "warn" if num_ready else "fail"
    return Finding(title, verdict, "; ".join([text, *complaints]), fix)


def _complaint(address: Address) -> str | None:
    shown = without_secret(address.base_url)
    try:
        said = status(httpx2.HTTPTransport(), address.base_url)
    except (TimeoutError, httpx2.HTTPError, OSError) as error:
        return f"{shown} does not answer ({error})"
    return None if said == "ready" else f"{shown} is {said}"
