"""Token vectors as one vector of fixed size, whose dot product approximates late interaction.

Source: Dhulipala et al. 2024 (MUVERA), section 2.2: planes cut the space into cells; a query's
vectors are summed in each, a document's averaged, an empty cell of a document takes the vector
nearest to it; each cell is projected to fewer dimensions; all of it several times over.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import numpy as np
import torch

from sie_mcp import wire
from sie_mcp.adapters.adapter import Outputs, PackedBatch, Sequence, SequenceOutput
from sie_mcp.adapters.output import Output
from sie_mcp.adapters.quantize import check_ranges, convert
from sie_mcp.errors import InvalidInput

MAX_DIMS = 131_072


@dataclass(frozen=True, slots=True)
class Planes:
    """The random directions of one setting, the same for ever: vectors are stored for years.

    Attributes:
        normals: `(repetitions, num_bits, token_dims)`.
        signs: `(repetitions, token_dims, dims)`, or None where nothing is projected.
    """

    normals: np.ndarray
    signs: np.ndarray | None


@cache
def make_planes(token_dims: int, repetitions: int, num_bits: int, dims: int, seed: int) -> Planes:
    """Draw the directions: normal ones for the planes, signs for the projection."""
    # The old generator's numbers are guaranteed never to change.
    random = np.random.RandomState(seed)
    normals = random.standard_normal((repetitions, num_bits, token_dims)).astype(np.float32)
    if dims == token_dims:
        return Planes(normals, None)
    signs = random.choice([-1.0, 1.0], (repetitions, token_dims, dims)) / np.sqrt(dims)
    return Planes(normals, signs.astype(np.float32))


def fixed_size(vectors: np.ndarray, options: wire.MuveraOptions, *, is_query: bool) -> np.ndarray:
    """Return float32 `(repetitions * 2^num_bits * dims,)` for token vectors `(n, token_dims)`."""
    planes = make_planes(
        vectors.shape[1], options.repetitions, options.num_bits, options.dims, options.seed
    )
    num_cells = 2**options.num_bits
    cells = np.zeros((options.repetitions, num_cells, vectors.shape[1]), np.float32)
    if len(vectors):
        weights = 2 ** np.arange(options.num_bits)
        for own, normals in zip(cells, planes.normals, strict=True):
            sides = vectors @ normals.T > 0
            _fill(own, vectors, sides, (sides * weights).sum(axis=1), is_query=is_query)
    if planes.signs is not None:
        cells = cells @ planes.signs
    return cells.ravel()


def _fill(
    cells: np.ndarray, vectors: np.ndarray, sides: np.ndarray, places: np.ndarray, *, is_query: bool
) -> None:
    """Put vectors `(n, token_dims)` into the cells that they are in, `(n,)`."""
    np.add.at(cells, places, vectors)
    if is_query:
        return
    counts = np.bincount(places, minlength=len(cells))
    filled = counts > 0
    cells[filled] /= counts[filled, None]
    empty = np.flatnonzero(~filled)
    wanted = (empty[:, None] >> np.arange(sides.shape[1])) & 1
    # How many planes lie between an empty cell and each vector; the first of the nearest is taken.
    between = (wanted[:, None, :] != sides[None]).sum(axis=2)
    cells[empty] = vectors[between.argmin(axis=1)]


class TokenVectors(Output, Protocol):
    """The kind of vectors that it is made of."""

    dims: int


class MuveraOutput(Output):
    """The fixed-size form of a model's token vectors."""

    name: wire.OutputType = "muvera"

    def __init__(self, tokens: TokenVectors) -> None:
        self._tokens = tokens
        self.source = tokens.source

    def check(self, params: wire.EncodeParams) -> None:
        """Refuse a size over the limit or a projection that is none."""
        options = params.options.muvera
        if params.options.dimensions is not None:
            raise InvalidInput("dimensions does not apply to muvera; choose muvera.dims")
        if options.dims > self._tokens.dims:
            raise InvalidInput(
                f"muvera.dims {options.dims} is over the {self._tokens.dims} of a token vector"
            )
        size = muvera_dims(options)
        if size > MAX_DIMS:
            raise InvalidInput(
                f"muvera asks for {size:,} numbers, the limit is {MAX_DIMS:,}; "
                "choose fewer repetitions, bits or dims"
            )
        check_ranges(params, size)

    def max_length(self, *, is_query: bool) -> int | None:
        """Return that of the token vectors."""
        return self._tokens.max_length(is_query=is_query)

    def expand(self, sequence: Sequence, *, is_query: bool) -> Sequence:
        """Add what the token vectors add."""
        return self._tokens.expand(sequence, is_query=is_query)

    def forward(self, hidden_states: torch.Tensor, batch: PackedBatch) -> Outputs:
        """Compute the token vectors; what is made of them needs no device."""
        return self._tokens.forward(hidden_states, batch)

    def result(
        self, output: SequenceOutput | None, sequence: Sequence | None, params: wire.EncodeParams
    ) -> wire.Dense:
        """Make the vector of the tokens that count."""
        plain: dict[str, Any] = {"output_dtype": "float32"}
        tokens = self._tokens.result(output, sequence, params.model_copy(update=plain))
        options = params.options
        assert isinstance(tokens, wire.Multivector)
        vector = fixed_size(tokens.values, options.muvera, is_query=bool(options.is_query))
        return convert(vector, params)


def muvera_dims(options: wire.MuveraOptions) -> int:
    """Return how many numbers the vector has."""
    return int(options.repetitions * 2**options.num_bits * options.dims)
