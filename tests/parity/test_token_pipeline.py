"""Token classification against the pipeline of transformers, on a tiny random checkpoint."""

from pathlib import Path

import pytest
from transformers import AutoTokenizer, BertForTokenClassification, TokenClassificationPipeline

from tests.running import extract, load
from tests.tiny import VOCABULARY, bert_config, save_model, save_tokenizer, wordpiece

TAGS = ["O", "B-NAME", "I-NAME", "B-PLACE", "I-PLACE"]
WORDS = [one for one in VOCABULARY if one.isalpha() and len(one) > 1]
TEXTS = [" ".join(WORDS[first::step][:20]) for first in range(4) for step in (1, 2, 3)]
TOLERANCE = 1e-4


# Of some other seeds all words have one tag, and prove nothing.
@pytest.mark.parametrize("seed", (0, 1, 3, 4))
def test_words_and_scores_are_those_of_the_pipeline(seed: int, tmp_path: Path) -> None:
    config = bert_config(
        vocab_size=len(VOCABULARY),
        id2label=dict(enumerate(TAGS)),
        label2id={tag: place for place, tag in enumerate(TAGS)},
    )
    model = save_model(tmp_path, BertForTokenClassification(config), seed)
    save_tokenizer(tmp_path, wordpiece())
    pipeline = TokenClassificationPipeline(
        model=model.eval(),
        tokenizer=AutoTokenizer.from_pretrained(tmp_path),
        aggregation_strategy="first",
        device="cpu",
    )
    adapter = load(tmp_path)
    together = extract(adapter, TEXTS, threshold=0.0)
    num_found = 0
    for text, item in zip(TEXTS, together, strict=True):
        (alone,) = extract(adapter, [text], threshold=0.0)
        expected = [
            (one["start"], one["end"], one["entity_group"], one["score"]) for one in pipeline(text)
        ]
        for found in (item, alone):
            places = [(one.start, one.end, one.label) for one in found.entities]
            assert places == [one[:3] for one in expected]
            scores = [one.score for one in found.entities]
            assert scores == pytest.approx([one[3] for one in expected], abs=TOLERANCE)
        num_found += len(expected)
    assert num_found > len(TEXTS)
