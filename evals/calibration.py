"""How far the probabilities of `classify` by cosines can be trusted: `python -m evals.calibration`.

Intents of banking77 and CLINC150, judged by their names alone. A temperature is fitted on every
second text of banking77 (by likelihood) and reported on the others and on CLINC150, which it never
saw, beside the tool's own and none. Expected calibration error over 15 bins of the best label's
probability.
"""

import asyncio

import numpy as np

from evals.datasets import DATA
from evals.local import local_client
from sie_mcp.client import EngineClient
from sie_mcp.tools.decision import COSINE_TEMPERATURE
from sie_mcp.tools.labelling.labels import OVERLAP_COSINE
from sie_mcp.tools.vectors import embed_texts

MODELS = ("all-MiniLM-L6-v2", "potion-base-8M")
FITTED, OTHER = "banking77", "clinc150"
_BINS = 15


async def _cosines(
    client: EngineClient, model: str, name: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return each text's cosine with each label, its right label, and labels with each other."""
    lines = (DATA / f"{name}.sample.tsv").read_text("utf-8").splitlines()
    rows = [line.split("\t") for line in lines]
    labels = sorted({label for label, _ in rows})
    vectors = await embed_texts(client, model, [text for _, text in rows])
    names = await embed_texts(client, model, [label.replace("_", " ") for label in labels])
    right = np.array([labels.index(label) for label, _ in rows])
    return vectors.values @ names.values.T, right, names.values @ names.values.T


def shares(cosines: np.ndarray, temperature: float) -> np.ndarray:
    """Return probabilities `(num_texts, num_labels)`."""
    powers = np.exp((cosines - cosines.max(axis=1, keepdims=True)) / temperature)
    probabilities: np.ndarray = powers / powers.sum(axis=1, keepdims=True)
    return probabilities


def calibration_error(probabilities: np.ndarray, right: np.ndarray) -> float:
    """Return the mean distance of the best label's probability from how often it is right."""
    surest, is_right = probabilities.max(axis=1), probabilities.argmax(axis=1) == right
    bins = np.minimum((surest * _BINS).astype(int), _BINS - 1)
    gaps = [
        (bins == one).mean() * abs(surest[bins == one].mean() - is_right[bins == one].mean())
        for one in np.unique(bins)
    ]
    return float(sum(gaps))


def fit(cosines: np.ndarray, right: np.ndarray) -> float:
    """Return the temperature under which the right labels are likeliest."""
    temperatures = np.geomspace(0.01, 0.5, 80)
    places = np.arange(len(right))
    losses = [-np.log(shares(cosines, one)[places, right]).mean() for one in temperatures]
    return float(temperatures[int(np.argmin(losses))])


def confusion(cosines: np.ndarray, right: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """Return how often one of a pair of labels is taken for the other: near pairs, and far ones."""
    found = cosines.argmax(axis=1)
    counts = np.zeros((len(labels), len(labels)))
    np.add.at(counts, (right, found), 1)
    one, other = np.triu_indices(len(labels), 1)
    wrong = counts[one, other] + counts[other, one]
    total = wrong + counts[one, one] + counts[other, other]
    rates = np.divide(wrong, total, out=np.zeros_like(wrong), where=total > 0)
    near = labels[one, other] >= OVERLAP_COSINE
    far = labels[one, other] < 0.6
    return float(rates[near].mean()) if near.any() else float("nan"), float(rates[far].mean())


async def main() -> None:
    """Print the figures of every model."""
    async with local_client() as client:
        for model in MODELS:
            cosines, right, labels = await _cosines(client, model, FITTED)
            fitted = fit(cosines[::2], right[::2])
            print(f"{model}: fitted temperature {fitted:.3f}; the tool's is {COSINE_TEMPERATURE}")
            others = await _cosines(client, model, OTHER)
            for name, (found, wanted, near) in (
                (f"{FITTED}, the other half", (cosines[1::2], right[1::2], labels)),
                (OTHER, others),
            ):
                errors = {
                    f"{one:.3f}": round(calibration_error(shares(found, one), wanted), 3)
                    for one in (fitted, COSINE_TEMPERATURE, 1.0)
                }
                accuracy = float((found.argmax(axis=1) == wanted).mean())
                pairs = confusion(found, wanted, near)
                print(f"  {name}: accuracy {accuracy:.3f}; error by temperature {errors}")
                print(f"    taken for each other: near {pairs[0]:.3f}, far {pairs[1]:.4f}")


if __name__ == "__main__":
    asyncio.run(main())
