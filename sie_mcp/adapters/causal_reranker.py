"""The score primitive by a language model: how likely its next word is the one for relevant.

Source: Nogueira et al. 2020 (monoT5), section 3, for the two words. What all questions of a request
begin with, the task and the query, is computed once where no token sees a later one.
"""

import numpy as np

from sie_mcp import wire
from sie_mcp.adapters.adapter import Outputs, PackedBatch, Prepared, Rows, Sequence
from sie_mcp.adapters.cross_encoder import OUTPUTS, CrossEncoderAdapter
from sie_mcp.adapters.layers.softcap import bend
from sie_mcp.adapters.loaded import Loaded
from sie_mcp.adapters.lora_hooks import with_loras
from sie_mcp.adapters.packing import share_prefix
from sie_mcp.adapters.results import Reading, limit_length, text_of
from sie_mcp.adapters.score_prompts import Prompt
from sie_mcp.adapters.widened import widened
from sie_mcp.errors import InputTooLong, InvalidInput
from sie_mcp.wire import Request


class CausalRerankerAdapter(CrossEncoderAdapter):
    """Scores pairs by asking about each.

    Args:
        prompt: How to ask.
    """

    def __init__(self, loaded: Loaded, prompt: Prompt) -> None:
        super().__init__(loaded)
        assert loaded.recipe.logit_score is not None
        self._rule = loaded.recipe.logit_score
        self._prompt = prompt
        self._shares = bool(getattr(loaded.model.encoder, "is_causal", False))

    def prepare(self, request: Request) -> Prepared:
        """Ask about each item; items alone are cut to fit."""
        if not isinstance(request, wire.ScoreRequest):
            raise InvalidInput(f"{self.card.name} is a reranker: it can score, nothing else")
        self._check(request.options)
        limit = limit_length(request.options.max_length, self._recipe.max_length)
        if request.query.text is None:
            raise InvalidInput("query has no text; send {'text': '…'}")
        texts = [text_of(item, index) for index, item in enumerate(request.items)]
        asked = self._prompt.ask(request.query.text, request.instruction or "", texts, limit)
        readings = []
        for index, one in enumerate(asked):
            if one.truncated and not request.options.truncate:
                raise InputTooLong(
                    f"items[{index}] with the query and what is asked of them is longer than "
                    f"{limit} tokens; split it or allow truncation"
                )
            readings.append(Reading(index, len(one.ids), one.truncated))
        return Prepared(self._sequences([one.ids for one in asked]), readings)

    @with_loras
    def forward(self, batch: PackedBatch) -> Outputs:
        """Return the logit, or the lead of one logit over the other, float32 `(num_seqs, 1)`."""
        hidden_states = self._model.states(batch)
        last = batch.cu_seqlens[1:].long() - 1
        assert self._model.rows is not None
        with widened():
            logits = self._model.rows(hidden_states[last[batch.num_prefixes :]])
        if self._rule.softcap is not None:
            logits = bend(logits, self._rule.softcap)
        lead = logits[:, 0] if self._rule.false_id is None else logits[:, 0] - logits[:, 1]
        lead = lead / self._rule.divisor
        return {"logits": Rows(lead[:, None], tuple(range(len(lead) + 1)))}

    def _sequences(self, rows: list[np.ndarray]) -> list[Sequence]:
        if self._shares:
            return share_prefix(rows, OUTPUTS)
        return [Sequence(row, outputs=OUTPUTS) for row in rows]
