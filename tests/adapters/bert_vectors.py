"""One tiny BERT, and the vectors that its folder gives."""

import numpy as np

from sie_mcp import wire
from tests.parity.run import load, run
from tests.parity.table import ROWS

BERT = ROWS[0]
TEXTS = ["alpha beta gamma", "alpha"]


def vectors(folder, entry=None):
    request = wire.EncodeRequest(items=[wire.Item(text=text) for text in TEXTS])
    response, _ = run(load(folder, entry), request)
    return np.stack([item.dense.values for item in response.items])
