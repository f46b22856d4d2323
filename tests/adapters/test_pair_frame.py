"""Pairs of any tokenizer are what its own library puts together and cuts."""

import random

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from sie_mcp.adapters.pair_frame import pair_frame
from sie_mcp.adapters.tokenizer import TextTokenizer
from sie_mcp.errors import ModelLoadFailed

SPECIAL = [("<s>", 0), ("</s>", 1), ("[CLS]", 2), ("[SEP]", 3)]
WORDS = [f"w{number}" for number in range(20)]
VOCABULARY = {word: at for at, word in enumerate([*(word for word, _ in SPECIAL), "a", *WORDS])}


def template(pair: str) -> processors.PostProcessor:
    return processors.TemplateProcessing(single="<s> $A", pair=pair, special_tokens=SPECIAL)


FRAMES = {
    "bert": processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2)),
    "deberta": template("[CLS] $A [SEP] $B:1 [SEP]:1"),
    "roberta": processors.RobertaProcessing(("</s>", 1), ("<s>", 0)),
    "xlm-r": template("<s> $A </s> </s> $B </s>"),
    "xlnet": template("$A [SEP] $B:1 [SEP]:1 [CLS]:2"),
    "t5": template("$A </s> $B </s>"),
    "before only": template("<s> $A $B"),
    "bytes": processors.ByteLevel(),
    "none": None,
}


def made(frame: processors.PostProcessor | None) -> Tokenizer:
    tokenizer = Tokenizer(models.WordLevel(VOCABULARY, unk_token="</s>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens([word for word, _ in SPECIAL])
    if frame is not None:
        tokenizer.post_processor = frame
    return tokenizer


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES.keys())
def test_pairs_are_those_of_the_library_whatever_is_empty_long_or_special(frame):
    ours, library = TextTokenizer(made(frame)), made(frame)
    least = library.num_special_tokens_to_add(is_pair=True)
    chance = random.Random(7)
    for _ in range(150):
        texts = [
            " ".join(chance.choices([*WORDS, "[SEP]"], k=chance.choice([0, 1, 2, 5, 20])))
            for _ in range(3)
        ]
        limit = chance.choice([None, *range(least, least + 24)])
        if limit is None:
            library.no_truncation()
        else:
            library.enable_truncation(limit, strategy="longest_first")
        for second, found in zip(
            texts[1:], ours.encode_pairs(texts[0], texts[1:], limit), strict=True
        ):
            expected = library.encode(texts[0], second)
            types = [0] * len(found.ids) if found.type_ids is None else found.type_ids.tolist()
            assert found.ids.tolist() == expected.ids, (texts[0], second, limit)
            assert types == expected.type_ids, (texts[0], second, limit)
            assert found.truncated == bool(expected.overflowing)


def test_a_frame_with_the_second_text_first_is_refused():
    with pytest.raises(ModelLoadFailed, match="before the first"):
        pair_frame(made(template("$B </s> $A")))
