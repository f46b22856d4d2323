"""How ColBERT-style checkpoints say which token vectors count: Stanford's, PyLate's, our library's.

Where no file says anything, token vectors of a plain encoder are used as they are.
"""

import string
from dataclasses import replace
from typing import Any

from sie_mcp.adapters.checkpoint.files import TRANSFORMER_FILES, Files
from sie_mcp.adapters.checkpoint.modules import Pipeline
from sie_mcp.adapters.recipe import MultivectorRule, Projection
from sie_mcp.errors import ModelLoadFailed

STANFORD = "HF_ColBERT"
_PUNCTUATION = tuple(string.punctuation)
_DOCUMENTS_ONLY = (None, "document", ["document"])


def read_stanford(
    files: Files, hidden_size: int
) -> tuple[MultivectorRule, Projection, dict[str, str]]:
    """Read artifact.metadata: markers become prompts, the projection is linear.weight."""
    meta = files.read("artifact.metadata")
    query = str(meta.get("query_token_id", "[unused0]"))
    document = str(meta.get("doc_token_id", "[unused1]"))
    query_length = int(meta.get("query_maxlen", 32))
    rule = MultivectorRule(
        query_length=query_length,
        document_length=int(meta.get("doc_maxlen", 220)),
        expand_queries_to=query_length,
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
    query_length = int(settings.get("query_length") or 32)
    skiplist = settings.get("skiplist_words")
    rule = MultivectorRule(
        query_length=query_length,
        document_length=int(settings.get("document_length") or 180),
        expand_queries_to=query_length if settings.get("do_query_expansion", True) else 0,
        attend_to_expansion=bool(settings.get("attend_to_expansion_tokens", False)),
        skiplist_words=_PUNCTUATION if skiplist is None else tuple(skiplist),
        markers=(query, document, query.strip(), document.strip()),
    )
    files.decide("multivector", "PyLate", "config_sentence_transformers.json")
    return rule, {"query": query, "document": document}


def read_multi_vector_encoder(files: Files, pipeline: Pipeline) -> MultivectorRule:
    """Read the keys of sentence-transformers 6: the transformer's file and MultiVectorMask.

    Raises:
        ModelLoadFailed: a mask of a kind that we do not apply.
    """
    name = next((one for one in TRANSFORMER_FILES if files.has(one)), TRANSFORMER_FILES[0])
    settings = files.read(name)
    expansion = settings.get("query_expansion") or {}
    mask = pipeline.mask or {}
    if mask.get("keep_only_token_ids") or mask.get("skiplist_tasks") not in _DOCUMENTS_ONLY:
        raise ModelLoadFailed(
            "MultiVectorMask: keep_only_token_ids and skiplist_tasks other than ['document'] "
            "are not supported"
        )
    length = int(expansion.get("length") or 0)
    is_fixed = expansion.get("strategy", "fixed") == "fixed"
    files.decide("multivector", "MultiVectorEncoder", name)
    return MultivectorRule(
        query_length=length if length and is_fixed else settings.get("query_length"),
        document_length=settings.get("document_length"),
        expand_queries_to=length,
        expansion_token=str(expansion.get("token") or ""),
        attend_to_expansion=bool(expansion.get("attend", False)),
        skiplist_words=tuple(mask.get("skiplist_words") or ()),
    )


def within_positions(rule: MultivectorRule, table: int | None) -> MultivectorRule:
    """Cap the rule's own lengths at what the position table has room for."""
    if table is None:
        return rule
    return replace(
        rule,
        query_length=min(rule.query_length, table) if rule.query_length else None,
        document_length=min(rule.document_length, table) if rule.document_length else None,
        expand_queries_to=min(rule.expand_queries_to, table),
    )
