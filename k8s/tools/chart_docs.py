"""Writes what is said twice: the chart's README from the comments of its values, and the settings
that its schema lets through from those that the programs have.

    python -m k8s.tools.chart_docs          # writes
    python -m k8s.tools.chart_docs --check  # fails where something is not as it would write it
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from sie_mcp.config import Config

CHART = Path(__file__).parents[1] / "helm" / "sie-mcp"
VALUES, SCHEMA, README = CHART / "values.yaml", CHART / "values.schema.json", CHART / "README.md"
MAX_DEFAULT = 90

# Set by the chart itself from other values: a second place would contradict the first.
GATEWAY_OWN = {
    "host", "port", "auth", "api_keys_file", "resource_url", "oauth_issuer", "pools_file",
    "catalogue_file", "cache_dir", "runtime_dir", "allowed_hosts", "allowed_origins", "drain_s",
    "graceful_timeout_s", "pool_hold_s", "gateways", "worker_url", "workers", "worker_slots",
    "kubernetes_credentials_dir", "queue_uri", "queue_for", "queue_pool", "queue_replicas",
    "embedding_cache_bytes", "embedding_cache_file",
}  # fmt: skip
PICKER_OWN = {
    *GATEWAY_OWN, "picker_port", "picker_health_port", "picker_certificate_dir", "tools", "allow",
}  # fmt: skip
WORKER_OWN = {
    "host", "port", "cache_dir", "runtime_dir", "allow_model_control", "graceful_timeout_s",
    "preload", "pinned", "catalogue_file", "hub_endpoint", "pools_file", "kubernetes_url",
    "kubernetes_credentials_dir", "queue_uri", "queue_for", "queue_pool", "queue_replicas",
    "embedding_cache_bytes", "embedding_cache_file",
}  # fmt: skip

HEAD = """# Chart sie-mcp

Made by `python -m k8s.tools.chart_docs` from `values.yaml`; docs/kubernetes.md says how to use it.

    helm install sie k8s/helm/sie-mcp --namespace sie --create-namespace --values my-values.yaml

Needs Kubernetes 1.30 or later, Helm 3.17 or 4. Has no sub-charts: KEDA (2.20 or later), Prometheus
Operator and a Gateway API implementation are used where the cluster has them.

| value | default | what it is |
|---|---|---|
"""


def main() -> None:
    """Write, or check, both files."""
    made = {README: readme(), SCHEMA: schema()}
    stale = [path.name for path, text in made.items() if not is_same(path, text)]
    if "--check" in sys.argv[1:]:
        if stale:
            sys.exit(f"stale: {', '.join(stale)}; run python -m k8s.tools.chart_docs")
        return
    for path, text in made.items():
        path.write_text(text, "utf-8")


def is_same(path: Path, text: str) -> bool:
    """Whether a file has a text."""
    return path.exists() and path.read_text("utf-8") == text


def readme() -> str:
    """Return the README: a row for each value that has a comment."""
    values = yaml.safe_load(VALUES.read_text("utf-8"))
    rows = [
        f"| `{'.'.join(path)}` | {_default(_at(values, path))} | {_cell(text)} |"
        for path, text in described(VALUES.read_text("utf-8"))
    ]
    return HEAD + "\n".join(rows) + "\n"


def described(source: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the path of each key that has a comment right above it, and the comment."""
    path: list[tuple[int, str]] = []
    comment: list[str] = []
    for line in source.splitlines():
        text = line.strip()
        if text.startswith("#"):
            comment.append(text.lstrip("# "))
            continue
        key = re.match(r"( *)([A-Za-z0-9_.-]+):", line)
        if key:
            path = [one for one in path if one[0] < len(key[1])] + [(len(key[1]), key[2])]
            if comment:
                yield tuple(name for _, name in path), " ".join(comment)
        comment = []


def schema() -> str:
    """Return the schema with today's settings."""
    found = json.loads(SCHEMA.read_text("utf-8"))
    for name, own in (
        ("gatewaySettings", GATEWAY_OWN),
        ("pickerSettings", PICKER_OWN),
        ("workerSettings", WORKER_OWN),
    ):
        allowed = sorted(Config.model_fields.keys() - own)
        found["definitions"][name]["propertyNames"] = {"enum": allowed}
    return json.dumps(found, indent=2) + "\n"


def _at(values: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        values = values[name]
    return values


def _default(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return "(several)" if len(text) > MAX_DEFAULT else f"`{text}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    main()
