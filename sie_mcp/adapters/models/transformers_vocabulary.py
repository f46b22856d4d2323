"""The vocabulary head of a masked language model of transformers, taken off its encoder."""

from typing import Any

import torch
from torch import nn

from sie_mcp.adapters.models.transformers_library import output_of
from sie_mcp.errors import ModelLoadFailed


class VocabularyHead(nn.Module):
    """What stands on a masked language model's encoder, a few rows at a time.

    Logits of a whole batch would take gigabytes. The library has no name for this part, so it runs
    the whole with an encoder that gives back the rows it is lent.
    """

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.lent = _Lent()
        setattr(module, module.base_model_prefix, self.lent)
        self.module = module

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """Return logits `(num_rows, vocab_size)`."""
        self.lent.rows = hidden_states[None]
        ids = torch.zeros(1, len(hidden_states), dtype=torch.long, device=hidden_states.device)
        try:
            logits: torch.Tensor = self.module(input_ids=ids).logits[0]
        finally:
            self.lent.rows = None
        return logits


def take_head(name: str, module: Any) -> VocabularyHead:
    """Take a masked language model's head off; what it stood on is `module.base_model` before.

    Runs both on the host, where the module is.

    Raises:
        ModelLoadFailed: both parts together do not give what the whole gave.
    """
    ids = torch.tensor([[1, 2, 3, 1]])
    encoder = module.base_model
    try:
        with torch.inference_mode():
            whole = module(input_ids=ids).logits[0]
            head = VocabularyHead(module)
            parts = head(encoder(input_ids=ids).last_hidden_state[0])
    except torch.OutOfMemoryError:
        raise  # The load may be tried again.
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise ModelLoadFailed(f"{name} cannot run: {error}") from error
    if parts.shape != whole.shape or not torch.allclose(parts.float(), whole.float(), atol=1e-2):
        raise ModelLoadFailed(
            f"{name}: the vocabulary head of {type(module).__name__} cannot be taken off"
        )
    return head


class _Lent(nn.Module):
    """Stands where the encoder stood."""

    rows: torch.Tensor | None = None

    def forward(self, *_: Any, **__: Any) -> Any:
        """Give back the rows that were lent, whatever the inputs."""
        return output_of(self.rows)
