"""Ids alone are the ids that the whole tokenisation gives."""

import numpy as np
import pytest
from tokenizers import processors

from sie_mcp.adapters.tokenizer import TextTokenizer
from tests.parity.checkpoints import make_tokenizer

TEXTS = ["w1 w2 w3", "", "w4", "w5 nobody-knows w6 w7 w8 w9 w10 w11 w12"]


def _typed() -> TextTokenizer:
    tokenizer = make_tokenizer("bert")
    special = [(one, tokenizer.token_to_id(one)) for one in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:1 [SEP]:1", pair="[CLS]:0 $A:0 $B:1", special_tokens=special
    )
    return TextTokenizer(tokenizer)


@pytest.mark.parametrize("special_tokens", [True, False])
@pytest.mark.parametrize("max_length", [None, 2, 3, 6])
@pytest.mark.parametrize(
    "make",
    [
        lambda: TextTokenizer(make_tokenizer("bert")),
        lambda: TextTokenizer(make_tokenizer("roberta"), lower_case=True, drops_punctuation=True),
        _typed,
    ],
)
def test_ids_alone_are_those_of_encode(make, max_length, special_tokens) -> None:
    tokenizer = make()
    whole = tokenizer.encode(TEXTS, max_length, special_tokens=special_tokens)
    alone = tokenizer.encode_ids(TEXTS, max_length, special_tokens=special_tokens)
    for one, other in zip(alone, whole, strict=True):
        assert one.ids.dtype == np.int64
        assert one.ids.tolist() == other.ids.tolist()
        types = np.zeros_like(one.ids) if one.type_ids is None else one.type_ids
        assert types.tolist() == other.type_ids.tolist()
        assert (one.truncated, one.num_cut) == (other.truncated, other.num_cut)
