"""How far texts share a query's words."""

from sie_mcp.tools.lexical import word_scores


def test_a_rare_word_counts_more_than_a_common_one() -> None:
    texts = ["the road and the rain", "the road again", "the road", "violets"]
    rare, common = word_scores("rain", texts)[0], word_scores("road", texts)[0]
    assert rare > common > 0


def test_a_text_without_the_words_has_nothing() -> None:
    assert word_scores("violet", ["red", "", "blue violet"])[:2] == [0.0, 0.0]


def test_inflected_words_meet_at_their_beginnings() -> None:
    assert word_scores("Who painted it?", ["painters at work", "a walk"])[0] > 0


def test_scripts_without_spaces_are_compared_by_character() -> None:
    first, second = word_scores("東京の人口", ["東京は大きい", "海は青い"])
    assert first > second


def test_the_shorter_of_two_texts_with_the_word_is_better() -> None:
    short, long = word_scores("violet", ["a violet", "a violet and much else that is none"])
    assert short > long


def test_no_words_give_no_scores() -> None:
    assert word_scores("?!", ["a", "b"]) == [0.0, 0.0]
