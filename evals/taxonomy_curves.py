"""Curves of confidence: fitted on names of categories, scored on texts that they never saw."""

from typing import Any

import numpy as np
from scipy.special import expit

from evals import taxonomy_confidence
from evals.taxonomy_seen import Seen, beliefs
from sie_mcp.tools.decision import Curve


def confidence(
    products: Seen, titles: Seen, renamed: Seen, mapped: Seen, other_names: Seen
) -> dict[str, Any]:
    """Fit the curves on names of categories, and say how they do on texts that they never saw.

    Names that are the same in both taxonomies are too easy to learn from for products.
    """
    logs, strict = {}, {}
    for seen in (products, titles, renamed, mapped, other_names):
        best, logs[seen.of.name], _ = beliefs(seen)
        strict[seen.of.name] = seen.right(best)[:, 0]
    names = renamed.of.name, other_names.of.name
    slope, offset = taxonomy_confidence.fit(
        np.concatenate([logs[name] for name in names]),
        np.concatenate([strict[name] for name in names]),
    )
    shipped = Curve(slope, offset)
    of_mapped = mapped.of.name
    half = len(logs[of_mapped]) // 2
    mapping = taxonomy_confidence.fit(logs[of_mapped][:half], strict[of_mapped][:half])
    sure = {name: expit(shipped.slope * one + shipped.offset) for name, one in logs.items()}
    scored = (products.of.name, titles.of.name)
    tables = {name: taxonomy_confidence.calibration(sure[name], strict[name]) for name in scored}
    tables["products, curve fitted on four folds for the fifth"] = taxonomy_confidence.held_out(
        logs[scored[0]], strict[scored[0]]
    )
    tables["mapping, curve fitted on one half, scored on the other"] = (
        taxonomy_confidence.calibration(
            expit(mapping[0] * logs[of_mapped][half:] + mapping[1]), strict[of_mapped][half:]
        )
    )
    return {
        "curves": {
            "products": [round(slope, 2), round(offset, 2)],
            "mappings": [round(one, 2) for one in mapping],
        },
        "calibration": {
            name: {key: round(value, 3) for key, value in table.items()}
            for name, table in tables.items()
        },
        "risk_coverage": {
            name: taxonomy_confidence.risk_coverage(sure[name], strict[name]) for name in scored
        },
        "reliability": {
            name: taxonomy_confidence.reliability(sure[name], strict[name]) for name in scored
        },
        "by_level": {
            seen.of.name: seen.of.gold.by_level(beliefs(seen)[0]) for seen in (products, titles)
        },
    }
