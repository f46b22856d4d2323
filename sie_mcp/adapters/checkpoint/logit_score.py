"""Language models that rerank: which words make the score, and how the model is asked.

sentence-transformers' LogitScore module says both, with the chat template; where a checkpoint has
no such files, the catalogue names one of our forms.
"""

from dataclasses import replace
from typing import Any

from sie_mcp.adapters.checkpoint.files import TRANSFORMER_FILES, Files
from sie_mcp.adapters.checkpoint.modules import Pipeline
from sie_mcp.adapters.recipe import LogitScore
from sie_mcp.adapters.score_forms import FORMS
from sie_mcp.adapters.tokenizer import TextTokenizer
from sie_mcp.catalogue.entries import Entry
from sie_mcp.errors import ModelLoadFailed

# What a recipe calls the one output of such a model.
RELEVANT = ("relevant",)


def read_logit_score(
    files: Files, config: dict[str, Any], pipeline: Pipeline | None, entry: Entry | None
) -> LogitScore | None:
    """Return how the score is read; None where the model is no such reranker.

    Raises:
        ModelLoadFailed: a form or a word that is not there.
    """
    score = None
    if pipeline is not None and pipeline.logit_score is not None:
        score = _from_module(files, pipeline, pipeline.logit_score)
    elif entry is not None and entry.score_template:
        score = _from_form(files, pipeline, entry.score_template)
    if score is None:
        return None
    if entry is not None and entry.score_instruction:
        score = replace(score, instruction=entry.score_instruction)
    cap = config.get("final_logit_softcapping")
    return replace(score, softcap=float(cap) if cap else None)


def _from_module(files: Files, pipeline: Pipeline, config: dict[str, Any]) -> LogitScore:
    name = "modules.json LogitScore"
    if config.get("module_input_name", "causal_logits") != "causal_logits":
        raise ModelLoadFailed(f"{name}: module_input_name must be causal_logits")
    false_id = config.get("false_token_id")
    score = LogitScore(
        true_id=int(files.required(config, "true_token_id", name)),
        false_id=None if false_id is None else int(false_id),
    )
    settings = _transformer_settings(files, pipeline.transformer_path)
    modalities = settings.get("modality_config") or {}
    files.decide("score", "the logits of its words", "modules.json")
    if "message" not in modalities:
        return score
    processing = settings.get("processing_kwargs") or {}
    return replace(
        score,
        form="chat",
        template=_template(files, pipeline.transformer_path),
        template_options=processing.get("chat_template") or {},
        is_structured=modalities["message"].get("format") == "structured",
    )


def _from_form(files: Files, pipeline: Pipeline | None, name: str) -> LogitScore:
    form = FORMS.get(name)
    if form is None:
        raise ModelLoadFailed(f"no score_template {name!r}; there are: {', '.join(FORMS)}")
    path = pipeline.transformer_path if pipeline else ""
    tokenizer = TextTokenizer.from_folder(files.folder / path)
    false_id = None if form.false_word is None else _word_id(tokenizer, form.false_word)
    files.decide("score", f"the logits of its words, asked as {name}", "catalogue")
    return LogitScore(
        true_id=_word_id(tokenizer, form.true_word),
        false_id=false_id,
        form=name,
        instruction=form.instruction,
        divisor=form.divisor,
    )


def _word_id(tokenizer: TextTokenizer, word: str) -> int:
    ids = tokenizer.encode([word], None, special_tokens=False)[0].ids
    if not len(ids):
        raise ModelLoadFailed(f"tokenizer.json makes no token of {word!r}")
    return int(ids[0])


def _transformer_settings(files: Files, path: str) -> dict[str, Any]:
    names = [f"{path}/{name}" if path else name for name in TRANSFORMER_FILES]
    return files.read(next((name for name in names if files.has(name)), names[0]))


def _template(files: Files, path: str) -> str:
    """Return the chat template: a file of its own, or a key of the tokenizer's."""
    own = f"{path}/chat_template.jinja" if path else "chat_template.jinja"
    if files.has(own):
        return (files.folder / own).read_text("utf-8")
    name = f"{path}/tokenizer_config.json" if path else "tokenizer_config.json"
    template = files.read(name).get("chat_template")
    if not isinstance(template, str):
        raise ModelLoadFailed(f"{own} is missing, and {name} has no chat_template")
    return template
