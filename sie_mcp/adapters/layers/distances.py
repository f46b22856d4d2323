"""The rows of a table of distances between tokens: near ones have their own, far ones share.

Source: He et al. 2021, section 3 of DeBERTa; the logarithmic sharing is that of its second version.
"""

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class DistanceTable:
    """A table of `2 * reach` rows, row `reach` for distance 0.

    Attributes:
        reach: Rows in each direction; what is farther shares the last.
        max_distance: The farthest that has a row; up to reach // 2 each distance has its own, the
            rest share them logarithmically. None: each distance has its own, as far as they go.
    """

    reach: int
    max_distance: int | None = None

    def rows(self, longest: int) -> torch.Tensor:
        """Return the rows of distances 1 - longest to longest - 1, int64, on the host.

        Not on the device: at the edge between two rows rounding decides, and must decide the same
        everywhere.
        """
        distance = torch.arange(1 - longest, longest, device="cpu")
        if self.max_distance is not None:
            distance = self._shared(distance, self.max_distance)
        return (distance + self.reach).clamp(0, 2 * self.reach - 1)

    def _shared(self, distance: torch.Tensor, max_distance: int) -> torch.Tensor:
        num_exact = self.reach // 2
        away = distance.abs().clamp(min=num_exact)
        # The order of operations is the reference's.
        width = torch.log(torch.tensor((max_distance - 1) / num_exact, device="cpu"))
        growth = torch.log(away / num_exact) / width
        far = torch.ceil(growth * (num_exact - 1)).long() + num_exact
        return torch.where(distance.abs() <= num_exact, distance, far * distance.sign())


class Distances:
    """The distances within one batch: which rows of the table it needs, and which pair has which.

    Args:
        table: How distances map to rows.
        longest: Tokens of the longest sequence.
        device: Where `between` is needed.
    """

    def __init__(self, table: DistanceTable, longest: int, device: torch.device) -> None:
        rows = table.rows(longest)
        first, last = int(rows[0]), int(rows[-1])
        # Short texts need few rows; what is made of them costs each layer a matrix multiplication.
        self.used = slice(first, last + 1)
        self._rows = (rows - first).to(device)
        self._zero = longest - 1
        # Every layer asks for the same few lengths. A cached method would hold itself, and with it
        # the device's memory until the collector comes.
        self._between: dict[int, torch.Tensor] = {}

    def between(self, length: int) -> torch.Tensor:
        """Return int64 `(length, length)`: the row, counted within `used`, of query minus key."""
        if length not in self._between:
            places = torch.arange(length, device=self._rows.device)
            self._between[length] = self._rows[places[:, None] - places[None, :] + self._zero]
        return self._between[length]
