"""Drive a server with SIE's own SDK, unmodified: `python drive_sie_sdk.py URL`; prints JSON.

Runs under an interpreter of its own, which has the SDK and nothing of ours.
"""

import json
import sys
import warnings
from collections.abc import Callable

import sie_sdk

LONG = {"text": "morning " * 400}
TEXTS = [{"id": "a", "text": "morning coffee"}, {"text": "alpha"}]


def error_of(call: Callable[[], object]) -> list[str | None]:
    """Return what the SDK makes of a call's refusal."""
    try:
        call()
    except sie_sdk.SIEError as raised:
        return [type(raised).__name__, getattr(raised, "code", None), str(raised)]
    return [None, None, "no error"]


def main(url: str) -> None:
    """Print what came back of every kind of call."""
    client = sie_sdk.SIEClient(url)
    outputs = ["dense", "sparse", "multivector"]
    encoded = client.encode("m3", TEXTS, output_types=outputs)
    query = client.encode("m3", TEXTS[1], output_types=["dense"], is_query=True)
    scores = client.score("ce", {"text": "who"}, [{"id": "x", "text": "one"}, {"text": "two"}])
    entities = client.extract("ner", TEXTS)
    classified = client.extract("nli", TEXTS[0])
    models = client.list_models()
    errors = [
        error_of(lambda: client.get_model("nothing/here")),
        error_of(lambda: client.encode("m3", LONG, options={"truncate": False})),
        error_of(lambda: client.extract("m3", TEXTS[0])),
    ]
    found = {
        "version": sie_sdk.__version__,
        "ids": [one.get("id") for one in encoded],
        "dense": [one["dense"].tolist() for one in encoded],
        "sparse": [
            [one["sparse"]["indices"].tolist(), one["sparse"]["values"].tolist()] for one in encoded
        ],
        "multivector": [list(one["multivector"].shape) for one in encoded],
        "dtype": str(encoded[0]["dense"].dtype),
        "query": query["dense"].tolist(),
        "scores": scores,
        "entities": [sorted(one) for one in entities],
        "labels": [one["label"] for one in classified["classifications"]],
        "models": sorted(one["name"] for one in models),
        "card": client.get_model("m3")["dims"],
        "errors": errors,
    }
    print(json.dumps(found))  # noqa: T201  # its answer
    client.close()


if __name__ == "__main__":
    # A server of an older or newer API would be warned of.
    warnings.simplefilter("error")
    main(sys.argv[1])
