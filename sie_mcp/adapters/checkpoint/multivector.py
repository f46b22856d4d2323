"""How ColBERT-style checkpoints say which token vectors count: Stanford's, PyLate's, our library's.

Where no file says anything, token vectors of a plain encoder are used as they are.
"""

import string
from typing import Any

from sie_mcp.adapters.checkpoint.files import TRANSFORMER_FILES, Files
from sie_mcp.adapters.checkpoint.modules import Pipeline
from sie_mcp.adapters.recipe import MultivectorRule, Projection

STANFORD = "HF_ColBERT"
_PUNCTUATION = tuple(string.punctuation)


def read_stanford(
    files: Files, hidden_size: int
) -> tuple[MultivectorRule, Projection, dict[str, str]]:
    """Read artifact.metadata: markers become prompts, the projection is linear.weight."""
    meta = files.read("artifact.metadata")
    query = str(meta.get("query_token_id", "[unused0]"))
    document = str(meta.get("doc_token_id", "[unused1]"))
    rule = MultivectorRule(
        query_length=int(meta.get("query_maxlen", 32)),
        document_length=int(meta.get("doc_maxlen", 220)),
        expand_queries=True,
        attend_to_expansion=bool(meta.get("attend_to_mask_tokens", False)),
        skiplist_words=_PUNCTUATION if meta.get("mask_punctuation", True) else (),
        markers=(query, document),
    )
    projection = Projection(
        folder=files.folder,
        in_features=hidden_size,
        out_features=int(meta.get("dim", 128)),
        has_bias=False,
        activation="identity",
        input_name="token_embeddings",
    )
    files.decide("multivector", "Stanford ColBERT", "config.json")
    return rule, projection, {"query": f"{query} ", "document": f"{document} "}


def read_pylate(files: Files, settings: dict[str, Any]) -> tuple[MultivectorRule, dict[str, str]]:
    """Read PyLate's keys of config_sentence_transformers.json."""
    query = str(settings.get("query_prefix") or "[Q] ")
    document = str(settings.get("document_prefix") or "[D] ")
    rule = MultivectorRule(
        query_length=int(settings.get("query_length") or 32),
        document_length=int(settings.get("document_length") or 180),
        expand_queries=bool(settings.get("do_query_expansion", True)),
        attend_to_expansion=bool(settings.get("attend_to_expansion_tokens", False)),
        skiplist_words=tuple(settings.get("skiplist_words", _PUNCTUATION)),
        markers=(query, document, query.strip(), document.strip()),
    )
    files.decide("multivector", "PyLate", "config_sentence_transformers.json")
    return rule, {"query": query, "document": document}


def read_multi_vector_encoder(files: Files, pipeline: Pipeline) -> MultivectorRule:
    """Read the keys of sentence-transformers 6: the transformer's file and MultiVectorMask."""
    name = next((one for one in TRANSFORMER_FILES if files.has(one)), TRANSFORMER_FILES[0])
    settings = files.read(name)
    expansion = settings.get("query_expansion") or {}
    mask = pipeline.mask or {}
    files.decide("multivector", "MultiVectorEncoder", name)
    return MultivectorRule(
        query_length=settings.get("query_length"),
        document_length=settings.get("document_length"),
        expand_queries=bool(expansion),
        attend_to_expansion=bool(expansion.get("attend", False)),
        skiplist_words=tuple(mask.get("skiplist_words") or ()),
    )
