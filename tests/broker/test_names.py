"""Names at the broker: every model has one, no two the same, and back again."""

import re

import pytest

from sie_mcp.broker.names import (
    KINDS,
    LANES,
    MAX_TOKEN_CHARS,
    consumer_of,
    model_of,
    stream_of,
    subject_of,
    token_in,
    token_of,
)

MODELS = ["BAAI/bge-m3", "org/a.b", "org/a+b", "org/a", "a b*c>d", "/folder/модель", "x%2Ey", "x.y"]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("lora", [None, "org/lora.v1", ""])
def test_a_model_is_found_again_from_its_subject(model, lora):
    token = token_of(model, lora)
    assert token is not None
    for kind in KINDS:
        for lane in LANES:
            subject = subject_of(kind, "l4.spot", lane, token)
            assert model_of(token_in(subject)) == (model, lora)
            assert subject.count(".") == 4
            assert not re.search(r"[\s*>]", subject)
            # What a consumer and a stream may be called.
            assert not re.search(r"[\s.*>/\\]", consumer_of(lane, token))
            assert not re.search(r"[\s.*>/\\]", stream_of(kind, "l4.spot"))


def test_no_two_models_have_one_name():
    keys = [(model, lora) for model in MODELS for lora in (None, "", "a", "b+c")]
    assert len({token_of(*key) for key in keys}) == len(keys)


def test_a_name_that_is_too_long_or_none_has_no_token():
    assert token_of("m" * MAX_TOKEN_CHARS) is not None
    assert token_of("m" * (MAX_TOKEN_CHARS + 1)) is None
    assert token_of("") is None
