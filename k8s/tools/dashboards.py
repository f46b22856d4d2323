"""Makes the chart's Grafana dashboards: a table of panels each, so that all look and read alike.

python -m k8s.tools.dashboards          # writes k8s/helm/sie-mcp/dashboards/*.json
python -m k8s.tools.dashboards --check  # fails where a file is not as it would be written
"""

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parents[1] / "helm" / "sie-mcp" / "dashboards"
NS = 'namespace="$namespace"'
COLUMNS, WIDTH, HEIGHT = 2, 12, 8


class Panel(NamedTuple):
    """One picture: its queries by what their lines are called."""

    title: str
    unit: str
    queries: dict[str, str]
    about: str = ""


def _rate(name: str, by: str, more: str = "") -> str:
    return f"sum by ({by}) (rate({name}{{{NS}{more}}}[$__rate_interval]))"


def _quantile(share: float, name: str, by: str = "") -> str:
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({share}, {_rate(name + '_bucket', labels)})"


def _quantiles(name: str) -> dict[str, str]:
    return {f"p{int(share * 100)}": _quantile(share, name) for share in (0.5, 0.95, 0.99)}


DASHBOARDS: dict[str, tuple[str, list[Panel]]] = {
    "fleet": (
        "sie-mcp: fleet",
        [
            Panel(
                "Ready workers",
                "short",
                {"{{pool}}": f'max by (pool) (sie_pool_workers{{{NS}, state="ready"}})'},
            ),
            Panel(
                "Demand",
                "short",
                {"{{pool}}": f"sum by (pool) (sie_pool_demand{{{NS}}})"},
                "Requests that run or wait; what KEDA sizes a pool by.",
            ),
            Panel(
                "Waiting for a worker",
                "short",
                {"{{pool}}": f"sum by (pool) (sie_pool_waiting{{{NS}}})"},
            ),
            Panel("Requests", "reqps", {"{{code}}": _rate("sie_requests_total", "code")}),
            Panel("Time of a request", "s", _quantiles("sie_request_seconds")),
            Panel(
                "Tokens that ran",
                "short",
                {"{{worker_pool}}": _rate("sie_tokens_total", "worker_pool")},
            ),
            Panel("Refused", "reqps", {"{{reason}}": _rate("sie_refused_total", "reason")}),
            Panel(
                "Device memory",
                "bytes",
                {"{{kind}}": f"sum by (kind) (sie_memory_bytes{{{NS}}})"},
            ),
        ],
    ),
    "models": (
        "sie-mcp: models and swaps",
        [
            Panel(
                "Models on devices",
                "short",
                {"{{worker_pool}}": f"sum by (worker_pool) (sie_models_resident{{{NS}}})"},
            ),
            Panel("Loads", "ops", {"{{outcome}}": _rate("sie_model_loads_total", "outcome")}),
            Panel("Time of a load", "s", _quantiles("sie_model_load_seconds")),
            Panel(
                "Back from host memory",
                "ops",
                {"{{outcome}}": _rate("sie_model_swaps_total", "outcome")},
            ),
            Panel("Time of that", "s", _quantiles("sie_model_swap_seconds")),
            Panel(
                "Evictions",
                "ops",
                {
                    "all": _rate("sie_model_evictions_total", "namespace"),
                    "too early": _rate("sie_model_short_stays_total", "namespace"),
                },
                "Too early: before the model had worked for as long as its load took.",
            ),
            Panel("Requests of a stay", "short", _quantiles("sie_model_stay_requests")),
            Panel("Out of memory", "ops", {"{{step}}": _rate("sie_out_of_memory_total", "step")}),
        ],
    ),
    "scheduling": (
        "sie-mcp: scheduling",
        [
            Panel(
                "Picks",
                "reqps",
                {"{{pool}} {{kind}}": _rate("sie_pool_picks_total", "pool, kind")},
                "Resident: the worker had the model. Cold: it had to load it.",
            ),
            Panel(
                "Further copies asked for",
                "ops",
                {"{{pool}} {{outcome}}": _rate("sie_pool_prefetches_total", "pool, outcome")},
            ),
            Panel(
                "Tokens waiting",
                "short",
                {"{{priority}}": f"sum by (priority) (sie_queue_tokens{{{NS}}})"},
            ),
            Panel("Wait for the device", "s", _quantiles("sie_queue_seconds")),
            Panel("Tokens of a batch", "short", _quantiles("sie_batch_tokens")),
            Panel("Time of a forward pass", "s", _quantiles("sie_batch_seconds")),
            Panel(
                "Given up before they ran",
                "ops",
                {
                    "cancelled": _rate("sie_cancelled_total", "namespace"),
                    "expired": _rate("sie_expired_total", "namespace"),
                },
            ),
            Panel(
                "Sequences waiting",
                "short",
                {"{{pod}}": f"sum by (pod) (sie_queue_sequences{{{NS}}})"},
            ),
            Panel(
                "At the broker",
                "short",
                {"{{pool}}": f"max by (pool) (sie_queue_pending{{{NS}}})"},
                "Requests that wait or run; every gateway sees all of them.",
            ),
            Panel("Wait at the broker", "s", _quantiles("sie_queue_wait_seconds")),
            Panel(
                "Sent by the broker",
                "reqps",
                {"{{pool}} {{outcome}}": _rate("sie_queue_calls_total", "pool, outcome")},
            ),
            Panel(
                "Handed out again, too late, given up",
                "ops",
                {
                    "again: {{lane}}": _rate("sie_queue_redelivered_total", "lane"),
                    "too late": _rate("sie_queue_expired_total", "namespace"),
                    "given up: {{reason}}": _rate("sie_queue_dead_letters_total", "reason"),
                },
                "What was given up lies in the stream SIE_DEAD.",
            ),
        ],
    ),
    "tools": (
        "sie-mcp: MCP tools",
        [
            Panel("Calls", "reqps", {"{{tool}}": _rate("sie_tool_calls_total", "tool")}),
            Panel(
                "Calls that failed",
                "reqps",
                {"{{tool}}": _rate("sie_tool_calls_total", "tool", ', outcome="error"')},
            ),
            Panel(
                "Time of a call, p95",
                "s",
                {"{{tool}}": _quantile(0.95, "sie_tool_seconds", "tool")},
            ),
            Panel(
                "Tokens that an agent reads, p95",
                "short",
                {"{{tool}}": _quantile(0.95, "sie_tool_answer_tokens", "tool")},
            ),
            Panel("Items", "short", {"{{tool}}": _rate("sie_tool_items_total", "tool")}),
            Panel("Tokens that ran", "short", {"{{tool}}": _rate("sie_tool_tokens_total", "tool")}),
            Panel("Over a limit", "reqps", {"{{reason}}": _rate("sie_limited_total", "reason")}),
            Panel(
                "Turned away", "reqps", {"{{code}}": _rate("sie_not_authenticated_total", "code")}
            ),
        ],
    ),
}


def main() -> None:
    """Write, or check, all files."""
    made = {FOLDER / f"{name}.json": text(name) for name in DASHBOARDS}
    if "--check" in sys.argv[1:]:
        stale = [
            path.name
            for path, wanted in made.items()
            if not path.exists() or path.read_text("utf-8") != wanted
        ]
        if stale:
            sys.exit(f"stale: {', '.join(stale)}; run python -m k8s.tools.dashboards")
        return
    for path, wanted in made.items():
        path.write_text(wanted, "utf-8")


def text(name: str) -> str:
    """Return a dashboard's file."""
    title, panels = DASHBOARDS[name]
    board = {
        "uid": f"sie-mcp-{name}",
        "title": title,
        "tags": ["sie-mcp"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [_source(), _namespace()]},
        "panels": [_panel(number, one) for number, one in enumerate(panels)],
    }
    return json.dumps(board, indent=1) + "\n"


def _source() -> dict[str, Any]:
    return {"name": "datasource", "type": "datasource", "query": "prometheus"}


def _namespace() -> dict[str, Any]:
    return {
        "name": "namespace",
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "query": "label_values(sie_pool_demand, namespace)",
        "refresh": 2,
    }


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    row, column = divmod(number, COLUMNS)
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.about,
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "gridPos": {"x": column * WIDTH, "y": row * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + place), "expr": query, "legendFormat": legend}
            for place, (legend, query) in enumerate(panel.queries.items())
        ],
    }


if __name__ == "__main__":
    main()
