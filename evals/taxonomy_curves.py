"""Curves of confidence: the shipped one, and those that texts give themselves without labels."""

from typing import Any

import numpy as np
from scipy.special import expit

from evals import taxonomy_confidence as measure
from evals.taxonomy_seen import Indices, Seen, beliefs
from sie_mcp.tools.belief import Evidence
from sie_mcp.tools.categories import calibration
from sie_mcp.tools.decision import PRODUCTS, TINY, Curve

NUM_FOLDS = 5
SEEDS = 5


def confidence(
    products: Seen, titles: Seen, renamed: Seen, mapped: Seen, other_names: Seen, flat: list[Seen]
) -> dict[str, Any]:
    """Say how sure is right, along the shipped curve and along the one of the texts themselves.

    Names that are the same in both taxonomies are too easy to learn from for products.
    """
    everything = (products, titles, renamed, other_names, *flat)
    logs, strict, alone, own = {}, {}, {}, {}
    for seen in (*everything, mapped):
        name = seen.of.name
        best, logs[name], _ = beliefs(seen)
        strict[name] = seen.right(best)[:, 0]
        alone[name] = sure_along(PRODUCTS, logs[name])
        own[name] = sure_along(curve_of(seen), logs[name])
    names = [one.of.name for one in (renamed, other_names)]
    fitted = _fit([logs[one] for one in names], [strict[one] for one in names])
    name, half = mapped.of.name, len(logs[mapped.of.name]) // 2
    mapping = _fit([logs[name][:half]], [strict[name][:half]])
    scored = (products.of.name, titles.of.name)
    tables = {}
    for one in (seen.of.name for seen in everything):
        tables[f"{one}: shipped curve"] = measure.calibration(alone[one], strict[one])
        tables[f"{one}: its own curve, no labels"] = measure.calibration(own[one], strict[one])
    tables["products: fitted on four folds for the fifth"] = measure.held_out(
        logs[scored[0]], strict[scored[0]]
    )
    tables["mapping: fitted on one half, scored on the other"] = measure.calibration(
        sure_along(mapping, logs[name][half:]), strict[name][half:]
    )
    tables |= few_shot(products)
    return {
        "curves": {
            "products": [round(fitted.slope, 2), round(fitted.offset, 2)],
            "mappings": [round(mapping.slope, 2), round(mapping.offset, 2)],
        },
        "calibration": {
            one: {key: round(value, 3) for key, value in table.items()}
            for one, table in tables.items()
        },
        "risk_coverage": {one: measure.risk_coverage(own[one], strict[one]) for one in scored},
        "reliability": {one: measure.reliability(own[one], strict[one]) for one in scored},
        "by_level": {
            seen.of.name: seen.of.gold.by_level(beliefs(seen)[0]) for seen in (products, titles)
        },
    }


def curve_of(seen: Seen, train: Indices = (), test: Indices | None = None) -> Curve:
    """Fit the curve as `Classifier.calibrated` does: to texts, and to examples left out each."""
    rows = list(range(len(seen.words)) if test is None else test)[: calibration.MAX_TEXTS]
    if len(seen.cosines) < 2:
        return PRODUCTS
    found = [calibration.opinions(seen.evidence(train, rows).alone(seen.branches))]
    if len(train):
        found.append(calibration.opinions(_left_out(seen, train).alone(seen.branches)))
    logs, same = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return calibration.fit(logs, same, PRODUCTS)


def few_shot(seen: Seen) -> dict[str, dict[str, float]]:
    """Classify each fold with the labels of the other four, and say how sure is right.

    Each seed is scored by itself; the mean is returned. The third way fits a curve to the labels
    of the examples, each left out once.
    """
    ways: dict[str, list[dict[str, float]]] = {}
    for seed in range(SEEDS):
        order = np.random.default_rng(seed).permutation(len(seen.words))
        right, sure = np.empty(len(order)), {}
        for fold in range(NUM_FOLDS):
            test = order[fold::NUM_FOLDS]
            train = np.setdiff1d(order, test)
            logs, right[test] = _logs(seen, seen.evidence(train, test), test)
            curves = {
                "shipped curve": PRODUCTS,
                "own curve, no labels": curve_of(seen, train, test),
                "fitted to the labels": calibration.fit(
                    *_logs(seen, _left_out(seen, train), train), PRODUCTS
                ),
            }
            for way, curve in curves.items():
                sure.setdefault(way, np.empty(len(order)))[test] = sure_along(curve, logs)
        for way, values in sure.items():
            ways.setdefault(way, []).append(measure.calibration(values, right))
    return {f"products, few-shot: {way}": measure.mean(tables) for way, tables in ways.items()}


def _fit(logs: list[np.ndarray], right: list[np.ndarray]) -> Curve:
    return Curve(*measure.fit(np.concatenate(logs), np.concatenate(right)))


def sure_along(curve: Curve, logs: np.ndarray) -> np.ndarray:
    """Return confidence along a curve, of logarithms of shares."""
    found: np.ndarray = expit(curve.slope * logs + curve.offset)
    return found


def _left_out(seen: Seen, train: Indices) -> Evidence:
    evidence = seen.evidence(train, train)
    np.fill_diagonal(evidence.likeness, -1.0)
    return evidence


def _logs(seen: Seen, evidence: Evidence, rows: Indices) -> tuple[np.ndarray, np.ndarray]:
    """Return the logarithm of the mean share of each text's likeliest node, and if it is right."""
    best = evidence.shares(seen.branches).argmax(axis=1)
    texts = np.arange(len(best))
    logs = [np.log(one[texts, best] + TINY) for one in evidence.alone(seen.branches)]
    return np.mean(logs, axis=0), (best == np.array(seen.of.gold.node)[rows]).astype(float)
