"""`extract_entities`, as an agent calls it."""

import pytest

from sie_mcp import wire
from tests.tools.conftest import Toolbox

pytestmark = pytest.mark.anyio
TEXT = "Anna wrote to Bob at bob@example.com; Anna called +49 30 123456."


async def test_entities_come_with_offsets_and_equal_mentions_together(toolbox: Toolbox) -> None:
    answer = await toolbox.call("extract_entities", texts=["nothing", TEXT])
    (found,) = answer["results"]
    assert found["index"] == 1
    assert found["entities"][0] == {
        "label": "NAME",
        "text": "Anna",
        "spans": [[0, 4], [38, 42]],
        "score": 0.9877,
    }
    for entity in found["entities"]:
        assert all(TEXT[start:end] == entity["text"] for start, end in entity["spans"])
    assert answer["counts"] == {"EMAIL": 1, "NAME": 3, "PHONE": 1}
    assert answer["labels"] == ["EMAIL", "PHONE", "NAME"]


async def test_labels_are_matched_whatever_their_case_and_may_be_one_string(
    toolbox: Toolbox,
) -> None:
    answer = await toolbox.call("extract_entities", texts=[TEXT], labels="email, Name")
    assert answer["labels"] == ["EMAIL", "NAME"]
    assert set(answer["counts"]) == {"EMAIL", "NAME"}
    named = await toolbox.call(
        "extract_entities", texts=[TEXT], labels=["email", "NAME", "name"], model="toy-extractor"
    )
    assert named == answer


async def test_an_unknown_label_is_refused_with_those_the_model_knows(toolbox: Toolbox) -> None:
    text = await toolbox.error("extract_entities", texts=[TEXT], labels=["organization"])
    assert text == (
        "toy-extractor does not know the label 'organization'; it knows EMAIL, PHONE, NAME; "
        "leave labels out for all of them"
    )
    assert toolbox.worker.calls == []


async def test_a_model_without_fixed_labels_is_asked_for_any(toolbox: Toolbox) -> None:
    toolbox.worker.labels = None
    answer = await toolbox.call("extract_entities", texts=[TEXT], labels=["wine", "NAME", "wine"])
    assert answer["labels"] == ["wine", "NAME"]


async def test_nothing_found_is_an_answer_that_says_what_was_looked_for(toolbox: Toolbox) -> None:
    answer = await toolbox.call("extract_entities", texts=["nothing here"])
    assert answer["results"] == [] and answer["counts"] == {}
    assert answer["labels"] == ["EMAIL", "PHONE", "NAME"]


async def test_a_text_that_was_not_read_to_its_end_says_where_reading_stopped(
    toolbox: Toolbox,
) -> None:
    answer = await toolbox.call("extract_entities", texts=["ENDLESS text"])
    assert answer["results"] == [{"index": 0, "entities": [], "truncated": True, "read_to": 6}]


async def test_many_texts_are_cut_to_the_limit_and_the_last_one_in_part(toolbox: Toolbox) -> None:
    toolbox.settings = {"max_result_tokens": 300}
    names = " ".join(f"n{n}@example.com" for n in range(7))
    answer = await toolbox.call("extract_entities", texts=[names] * 9)
    *_, last = answer["results"]
    assert last["entities_omitted"] + len(last["entities"]) == 7
    assert answer["omitted"] + len(answer["results"]) == 9
    assert answer["counts"] == {"EMAIL": 63}
    assert "fewer labels" in answer["hint"]


async def test_one_text_with_too_many_entities_is_cut_and_says_so(toolbox: Toolbox) -> None:
    toolbox.settings = {"max_result_tokens": 100}
    answer = await toolbox.call(
        "extract_entities", texts=[" ".join(f"n{n}@example.com" for n in range(90))]
    )
    assert answer["results"][0]["entities_omitted"] > 80
    assert "omitted" not in answer and "hint" in answer


async def test_a_word_that_comes_a_hundred_times_is_listed_twenty_times(toolbox: Toolbox) -> None:
    answer = await toolbox.call("extract_entities", texts=["Anna " * 100])
    (entity,) = answer["results"][0]["entities"]
    assert len(entity["spans"]) == 20 and entity["more_spans"] == 80


async def test_an_entity_too_long_for_the_answer_leaves_its_text_out(toolbox: Toolbox) -> None:
    toolbox.settings = {"max_result_tokens": 100}
    answer = await toolbox.call("extract_entities", texts=["a" * 900 + "@example.com"])
    assert answer["results"] == [] and answer["omitted"] == 1


async def test_a_classifier_is_not_taken_for_a_model_that_found_nothing(toolbox: Toolbox) -> None:
    text = await toolbox.error("extract_entities", texts=["MOOD"])
    assert "toy-extractor labels whole texts and finds no entities" in text


async def test_no_label_at_all_is_refused(toolbox: Toolbox) -> None:
    assert "labels" in await toolbox.error("extract_entities", texts=[TEXT], labels=[])


async def test_a_worker_without_a_default_is_simply_asked(toolbox: Toolbox) -> None:
    listing = await toolbox.worker.models()

    async def models() -> wire.ModelList:
        return listing.model_copy(update={"defaults": {}})

    toolbox.worker.models = models  # type: ignore[method-assign]
    answer = await toolbox.call("extract_entities", texts=[TEXT], labels=["NAME"])
    assert answer["counts"] == {"NAME": 3}


async def test_a_text_file_is_one_text(toolbox: Toolbox) -> None:
    toolbox.write("mail.txt", f"Hello\n{TEXT}\n")
    answer = await toolbox.call("extract_entities", path="mail.txt", labels=["EMAIL"])
    assert answer["count"] == 1
    assert answer["results"][0]["entities"][0]["spans"] == [[27, 42]]
