"""What a machine with a GPU looks like, and what findings say in short."""

from sie_mcp.doctor.findings import Finding

GPU = {
    "name": "cuda:0",
    "dtype": "bfloat16",
    "gains_from_bfloat16": False,
    "free_bytes": 80_000_000_000,
    "budget_bytes": 64_000_000_000,
}
SEEN = {
    "torch": "2.13.0",
    "cuda": "13.0",
    "gpus": ["H100"],
    "has_mps": False,
    "flash_attn": {},
    "devices": [GPU],
}


def verdicts(findings: list[Finding]) -> dict[str, str]:
    """Every warning and failure says what to do, and nothing else does."""
    for finding in findings:
        assert bool(finding.fix) == (finding.verdict != "ok"), finding
    return {finding.name: finding.verdict for finding in findings}
