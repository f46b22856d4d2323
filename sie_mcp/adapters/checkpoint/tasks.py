"""What a checkpoint is made for: the catalogue's word, its pipeline's, or its class's."""

from typing import Any

from sie_mcp.adapters.checkpoint import gliclass, gliner2, multivector, pruning
from sie_mcp.adapters.checkpoint.files import Files
from sie_mcp.adapters.checkpoint.modules import Pipeline
from sie_mcp.adapters.checkpoint.provence import is_provence
from sie_mcp.adapters.checkpoint.scores import read_labels
from sie_mcp.adapters.model import Architecture
from sie_mcp.catalogue.entries import Entry, Task
from sie_mcp.errors import ModelLoadFailed

SENTENCE_TRANSFORMERS = "config_sentence_transformers.json"
# One head for a whole sequence; of one label it is a cross-encoder's.
SEQUENCE_HEADS: tuple[Task, ...] = ("cross_encoder", "classification")
LABELLED: tuple[Task, ...] = (*SEQUENCE_HEADS, "token_classification")
_NEED_HEADS: tuple[Task, ...] = ("sparse", *LABELLED)


def read_tasks(
    files: Files, config: dict[str, Any], pipeline: Pipeline | None, entry: Entry | None
) -> tuple[tuple[Task, ...], str]:
    """Return what the checkpoint can do, what it is made for first, and who said so."""
    tasks, origin = _tasks(files, config, pipeline, entry)
    if tasks == ("cross_encoder",) and (number := len(read_labels(config))) != 1:
        return ("classification",), f"{origin}, {number} labels"
    return tasks, origin


def _tasks(
    files: Files, config: dict[str, Any], pipeline: Pipeline | None, entry: Entry | None
) -> tuple[tuple[Task, ...], str]:
    if entry is not None and entry.tasks:
        return entry.tasks, "catalogue"
    settings = files.read(SENTENCE_TRANSFORMERS)
    kind = str(settings.get("model_type", ""))
    if pipeline is not None:
        if kind == "SparseEncoder" or pipeline.splade is not None:
            return ("sparse",), "modules.json"
        if kind in ("ColBERT", "MultiVectorEncoder") or pipeline.mask is not None:
            return ("multivector",), SENTENCE_TRANSFORMERS
        if kind == "CrossEncoder":
            return ("cross_encoder",), SENTENCE_TRANSFORMERS
        if not pipeline.has_vector and pipeline.projections:
            return ("multivector",), "modules.json"
        return ("dense", "multivector"), "modules.json"
    return _tasks_of_class(files, config)


def _tasks_of_class(files: Files, config: dict[str, Any]) -> tuple[tuple[Task, ...], str]:
    if is_provence(config):
        return ("cross_encoder", "pruning"), "config.json"
    names = config.get("architectures") or [""]
    head = str(names[0])
    if head == gliclass.MODEL_TYPE:
        return ("zero_shot",), "config.json"
    if head == gliner2.MODEL_TYPE:
        return ("structure",), "config.json"
    if head == multivector.STANFORD:
        return ("multivector",), "config.json"
    if head.endswith("ForSequenceClassification"):
        if found := pruning.head_file(files.folder):
            return ("cross_encoder", "pruning"), f"config.json, {found}"
        return ("cross_encoder",), "config.json"
    if head.endswith("ForTokenClassification"):
        return ("token_classification",), "config.json"
    return ("dense", "multivector"), f"config.json architectures {head or 'unnamed'}"


def check_heads(
    name: str, config: dict[str, Any], tasks: tuple[Task, ...], row: Architecture
) -> None:
    """Refuse a task that needs a head of its own where we have none for the architecture.

    Raises:
        ModelLoadFailed: names the task and those that the architecture has.
    """
    for task in tasks:
        if task in _NEED_HEADS and row.head(task) is None:
            raise ModelLoadFailed(
                f"{name} is for {task}, which is not supported for model_type "
                f"{config['model_type']!r}; supported: {', '.join({'dense': None, **row.heads})}"
            )
