"""`detect_pii` and `redact`, as an agent calls them."""

import json
from typing import Any

import pytest

from sie_mcp import wire
from sie_mcp.tools.pii import patterns
from tests.tools.conftest import Toolbox

pytestmark = pytest.mark.anyio
TEXT = "Anna wrote to bob@example.com; anna called +49 30 123456. Bob paid by 4111 1111 1111 1111."
SECRETS = ("Anna", "bob@example.com", "123456", "4111")


async def test_kinds_are_counted_with_places_and_no_value_is_repeated(toolbox: Toolbox) -> None:
    answer = await toolbox.call("detect_pii", texts=["nothing", TEXT])
    assert answer["counts"] == {"CREDIT_CARD": 1, "EMAIL": 1, "PERSON": 2, "PHONE": 1}
    assert answer["count"] == 2 and answer["num_with"] == 1
    (text,) = answer["results"]
    assert text["index"] == 1
    by_kind = {one["kind"]: one for one in text["found"]}
    assert by_kind["PERSON"]["spans"] == [[0, 4], [58, 61]] and by_kind["PERSON"]["distinct"] == 2
    assert by_kind["CREDIT_CARD"]["score"] == 1.0
    assert not any(secret in json.dumps(answer) for secret in SECRETS)


async def test_values_are_shown_when_asked_for(toolbox: Toolbox) -> None:
    answer = await toolbox.call("detect_pii", texts=[TEXT], show_values=True, kinds="email")
    (kind,) = answer["results"][0]["found"]
    assert kind["values"] == ["bob@example.com"] and answer["counts"] == {"EMAIL": 1}


async def test_a_folder_is_counted_file_by_file_and_rows_go_to_a_file(toolbox: Toolbox) -> None:
    toolbox.write("a.txt", TEXT)
    toolbox.write("b.md", "Bob")
    answer = await toolbox.call("detect_pii", path="*.*", output_path="found.jsonl")
    assert [one["source"] for one in answer["results"]] == ["a.txt line 1", "b.md line 1"]
    rows = [json.loads(line) for line in (toolbox.folder / "found.jsonl").read_text().splitlines()]
    assert answer["num_written"] == len(rows) == 6
    assert rows[0]["kind"] == "PERSON" and not rows[0]["checked"]
    assert not any(secret in json.dumps(rows) for secret in SECRETS)


async def test_an_unknown_kind_is_refused_with_those_that_are_found(toolbox: Toolbox) -> None:
    text = await toolbox.error("detect_pii", texts=[TEXT], kinds=["shoe size"])
    assert text.startswith("kinds: nothing finds SHOE_SIZE; known: CREDIT_CARD, EMAIL")


async def test_a_model_that_takes_any_label_is_asked_for_personal_data(toolbox: Toolbox) -> None:
    toolbox.worker.labels = None
    answer = await toolbox.call("detect_pii", texts=[TEXT], kinds=["PASSPORT", "EMAIL"])
    assert answer["counts"] == {"EMAIL": 1}


async def test_masks_are_stable_and_the_rest_of_the_text_is_untouched(toolbox: Toolbox) -> None:
    answer = await toolbox.call("redact", texts=[TEXT, "Bob met Anna, bob@example.com"])
    first, second = (one["text"] for one in answer["results"])
    assert first == (
        "[PERSON_1] wrote to [EMAIL_1]; anna called [PHONE_1]. [PERSON_2] paid by [CREDIT_CARD_1]."
    )
    assert second == "[PERSON_2] met [PERSON_1], [EMAIL_1]"
    assert answer["counts"] == {"CREDIT_CARD": 1, "EMAIL": 2, "PERSON": 4, "PHONE": 1}


@pytest.mark.parametrize("kinds", [[], None, "", " "])
async def test_no_kinds_are_all_kinds(toolbox: Toolbox, kinds: list[str] | str | None) -> None:
    plain = await toolbox.call("redact", texts=[TEXT])
    assert plain["results"][0]["num_masked"] > 0
    assert await toolbox.call("redact", texts=[TEXT], kinds=kinds) == plain
    counted = await toolbox.call("detect_pii", texts=[TEXT], kinds=kinds)
    assert counted["counts"] == plain["counts"]


async def test_only_the_kinds_that_are_asked_for_are_masked(toolbox: Toolbox) -> None:
    answer = await toolbox.call("redact", texts=[TEXT], kinds=["CREDIT_CARD"])
    assert answer["results"][0]["text"] == TEXT.replace("4111 1111 1111 1111", "[CREDIT_CARD_1]")


async def test_a_number_that_a_mask_brings_near_to_its_word_is_masked_too(toolbox: Toolbox) -> None:
    text = "Phone of somebody.with.a.rather.long.name@mail.example.org 5550123"
    answer = await toolbox.call("redact", texts=[text], kinds=[])
    (one,) = answer["results"]
    assert one["text"] == "Phone of [EMAIL_1] [PHONE_1]" and one["num_masked"] == 2


async def test_a_number_that_no_plan_has_is_masked_and_not_called_checked(
    toolbox: Toolbox,
) -> None:
    toolbox.worker.labels = ["EMAIL"]
    text = "Anna: call me on 555.0123, order 555.0199"
    answer = await toolbox.call("detect_pii", texts=[text], kinds="phone", output_path="a.jsonl")
    (row,) = map(json.loads, (toolbox.folder / "a.jsonl").read_text().splitlines())
    assert (row["kind"], row["start"], row["end"]) == ("PHONE", 17, 25)
    assert not row["checked"] and row["score"] < 1 and answer["counts"] == {"PHONE": 1}


async def test_a_mask_that_is_taken_for_data_ends_in_an_error(
    toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "sie_mcp.tools.redact.find_by_pattern", lambda text: [patterns.PiiSpan(0, 1, "EMAIL")]
    )
    text = await toolbox.error("redact", texts=["Anna"])
    assert text == "EMAIL is still found after masking; report this"


async def test_a_file_becomes_a_copy_and_rows_become_rows(toolbox: Toolbox) -> None:
    toolbox.write("mail.txt", TEXT)
    answer = await toolbox.call("redact", path="mail.txt", output_path="mail.redacted.txt")
    written = (toolbox.folder / "mail.redacted.txt").read_text()
    assert written.startswith("[PERSON_1] wrote to [EMAIL_1]") and "results" not in answer
    toolbox.write("rows.csv", "id,text\na,Anna\nb,hello\n")
    answer = await toolbox.call("redact", path="rows.csv", output_path="rows.jsonl")
    rows = [json.loads(line) for line in (toolbox.folder / "rows.jsonl").read_text().splitlines()]
    assert [row["text"] for row in rows] == ["[PERSON_1]", "hello"]
    assert answer["num_written"] == 2
    text = await toolbox.error("redact", texts=["a", "b"], output_path="both.txt")
    assert "2 texts go to a .jsonl" in text


async def test_what_failed_or_was_not_read_to_its_end_is_never_copied(toolbox: Toolbox) -> None:
    texts = ["FAIL Anna", "ENDLESS Anna", "Anna"]
    answer = await toolbox.call("redact", texts=texts, output_path="out.jsonl")
    (row,) = (toolbox.folder / "out.jsonl").read_text().splitlines()
    assert json.loads(row)["text"] == "[PERSON_1]"
    assert answer["failed"]["count"] == 2 and answer["num_written"] == 1
    assert "was read to character 6 only" in json.dumps(answer["failed"])


async def test_an_entity_that_is_not_where_it_says_masks_nothing_and_is_an_error(
    toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = toolbox.worker.extract

    async def shifted(*args: Any, **kwargs: Any) -> wire.ExtractResponse:
        answer = await whole(*args, **kwargs)
        for item in answer.items:
            for entity in item.entities:
                entity.start += 1
        return answer

    monkeypatch.setattr(toolbox.worker, "extract", shifted)
    text = await toolbox.error("redact", texts=["Anna was here"])
    assert "does not stand at 1-4" in text and "Anna" not in text


async def test_a_classifier_is_not_taken_for_a_model_that_found_nothing(toolbox: Toolbox) -> None:
    assert "finds no entities" in await toolbox.error("redact", texts=["MOOD"])


async def test_many_texts_are_cut_to_the_limit_and_a_file_is_advised(toolbox: Toolbox) -> None:
    toolbox.settings = {"max_result_tokens": 100}
    answer = await toolbox.call("redact", texts=["Anna " * 20] * 9)
    assert answer["omitted"] + len(answer["results"]) == 9 and "output_path" in answer["hint"]


async def test_without_the_library_of_phone_numbers_the_answer_says_so(
    toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patterns, "finds_phones", lambda: False)
    monkeypatch.setattr("sie_mcp.tools.detect_pii.finds_phones", lambda: False)
    answer = await toolbox.call("detect_pii", texts=[TEXT])
    assert "PHONE" not in answer["patterns"] and "sie-mcp[pii]" in answer["hint"]
    assert answer["counts"]["PHONE"] == 1
