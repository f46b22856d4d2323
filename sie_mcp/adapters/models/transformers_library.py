"""What the installed transformers knows and loads. The only file that imports it, when first asked.

Nothing is downloaded, and a checkpoint's own code runs only where a recipe says that it may.
"""

import importlib.util
import math
import pickle
import re
import threading
from collections.abc import Callable, Collection
from functools import cache
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import nn

from sie_mcp.adapters.recipe import Recipe
from sie_mcp.adapters.tensors import open_tensors
from sie_mcp.errors import ModelLoadFailed

# The class that has each task's head; token vectors need none.
AUTO_CLASSES = {
    "dense": "AutoModel",
    "multivector": "AutoModel",
    "sparse": "AutoModelForMaskedLM",
    "cross_encoder": "AutoModelForSequenceClassification",
    "classification": "AutoModelForSequenceClassification",
    "token_classification": "AutoModelForTokenClassification",
}
# What a bad config or file makes the library, or a checkpoint's own code, raise.
FAILURES = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    OSError,
    RuntimeError,
    SafetensorError,
    SyntaxError,
    TypeError,
    ValueError,
    pickle.UnpicklingError,
)
# While it loads, the library changes its own classes for the whole process.
loading = threading.Lock()
# Tables of old checkpoints that are no weights.
_NO_WEIGHTS = re.compile(r".*position_ids")
# Nothing that we serve reads it where it is not part of a head.
_POOLER = re.compile(r"(.*\.)?pooler\..*")


@cache
def library() -> Any:
    """Import transformers, which takes seconds; its progress bars stay away."""
    library = importlib.import_module("transformers")
    library.utils.logging.disable_progress_bar()
    library.utils.logging.set_verbosity_error()
    return library


def version() -> str:
    """Return the installed version."""
    return str(library().__version__)


def knows(model_type: str) -> bool:
    """Whether the installed transformers has this model_type; False where it is not installed."""
    if not model_type or importlib.util.find_spec("transformers") is None:
        return False
    library()
    table = importlib.import_module("transformers.models.auto.configuration_auto")
    return model_type in table.CONFIG_MAPPING_NAMES


def template_renderer() -> Callable[..., Any]:
    """Return what renders chat templates in the library's own sandbox."""
    library()
    module = importlib.import_module("transformers.utils.chat_template_utils")
    renderer: Callable[..., Any] = module.render_jinja_template
    return renderer


def filled_config(name: str, values: dict[str, Any]) -> dict[str, Any]:
    """Return settings with the defaults of their model_type, as the library writes them.

    Raises:
        ModelLoadFailed: it cannot.
    """
    kind, own = values["model_type"], {k: v for k, v in values.items() if k != "model_type"}
    try:
        filled: dict[str, Any] = library().AutoConfig.for_model(kind, **own).to_dict()
    except FAILURES as error:
        raise failed(name, f"its settings of {kind!r} cannot be read", error) from error
    return filled


def read_config(name: str, folder: Path, *, runs_own_code: bool) -> Any:
    """Read config.json as the library does, with its defaults.

    Raises:
        ModelLoadFailed: it cannot.
    """
    try:
        return library().AutoConfig.from_pretrained(
            folder, local_files_only=True, trust_remote_code=runs_own_code
        )
    except FAILURES as error:
        raise failed(name, "config.json cannot be read", error) from error


def model_class(name: str, config: Any, task: str) -> Any:
    """Return the class that serves a task.

    Raises:
        ModelLoadFailed: there is none, or it reads something else than text.
    """
    if is_half(task, is_encoder_decoder=config.is_encoder_decoder):
        encoders = library().AutoModelForTextEncoding._model_mapping
        if type(config) in encoders:
            return encoders[type(config)]
    classes = getattr(library(), AUTO_CLASSES[task])._model_mapping
    if type(config) not in classes:
        raise ModelLoadFailed(
            f"{name} is for {task}, for which transformers {version()} has no class of model_type "
            f"{config.model_type!r}"
        )
    found = classes[type(config)]
    chosen = found[0] if isinstance(found, tuple) else found
    if chosen.main_input_name != "input_ids":
        raise ModelLoadFailed(
            f"{name}: a model of model_type {config.model_type!r} reads {chosen.main_input_name}, "
            "not text"
        )
    return chosen


def is_half(task: str, *, is_encoder_decoder: bool) -> bool:
    """Whether only the encoder of an encoder-decoder runs: vectors are its."""
    return is_encoder_decoder and AUTO_CLASSES[task] == "AutoModel"


def load_module(recipe: Recipe) -> Any:
    """Load the module of the recipe's first task to the host, float32, ready to run.

    The library takes another precision by changing torch's default for the whole process.

    Raises:
        ModelLoadFailed: wrong files; weights that are missing, or have no place where they belong.
    """
    task = recipe.tasks[0]
    config = read_config(recipe.name, recipe.folder, runs_own_code=recipe.runs_own_code)
    config.use_cache = config.output_hidden_states = False
    config.return_dict = True
    with loading:
        if recipe.runs_own_code:
            source = getattr(library(), AUTO_CLASSES[task])
            return load(recipe, source, config, attention="eager", trust_remote_code=True)
        source = model_class(recipe.name, config, task)
        attention = "sdpa" if source._supports_sdpa else "eager"
        # Said before anything is built: config.json could name a kernel to download and run.
        config._attn_implementation = attention
        check_size(recipe, source, config)
        return load(recipe, source, config, attention=attention)


def load(recipe: Recipe, source: Any, config: Any, *, attention: Any, **options: bool) -> Any:
    """Load a class of the library to the host, float32; hold `loading` meanwhile.

    Raises:
        ModelLoadFailed: wrong files; weights that are missing, or have no place where they belong.
    """
    try:
        module, report = source.from_pretrained(
            recipe.folder,
            config=config,
            dtype=torch.float32,
            local_files_only=True,
            use_safetensors=any(recipe.folder.glob("model*.safetensors")),
            attn_implementation=attention,
            output_loading_info=True,
            **options,
        )
    except FAILURES as error:
        raise failed(recipe.name, "transformers cannot load it", error) from error
    _check_weights(recipe, module, report["missing_keys"], report["unexpected_keys"])
    return module.eval()


def output_of(hidden_states: torch.Tensor | None) -> Any:
    """Return what the library's encoders return, holding these hidden states."""
    outputs = importlib.import_module("transformers.modeling_outputs")
    return outputs.BaseModelOutput(last_hidden_state=hidden_states)


def check_size(recipe: Recipe, source: Any, config: Any) -> None:
    """Refuse a config.json of a far larger model: the library would make up what is missing."""
    try:
        with torch.device("meta"):
            wanted = sum(one.numel() for one in source(config).parameters())
    except FAILURES as error:
        raise failed(recipe.name, "config.json does not fit", error) from error
    tensors = open_tensors(recipe.folder)
    stored = sum(math.prod(tensors.shape(name)) for name in tensors.names())
    pooler = 2 * int(recipe.config.get("hidden_size", 0)) ** 2
    if wanted > 1.1 * stored + pooler:
        raise ModelLoadFailed(
            f"{recipe.name}: config.json describes {wanted:,} weights, {tensors.label} holds "
            f"{stored:,}"
        )


def _check_weights(
    recipe: Recipe, module: nn.Module, missing: Collection[str], unexpected: Collection[str]
) -> None:
    """Refuse weights made up by the library, and weights of parts that run but have no place."""
    is_bare = AUTO_CLASSES.get(recipe.tasks[0]) == "AutoModel"
    lacking = sorted(name for name in missing if not (is_bare and _POOLER.fullmatch(name)))
    if lacking:
        raise ModelLoadFailed(f"{recipe.name} lacks the weights of {', '.join(lacking[:3])}")
    prefix = f"{getattr(module, 'base_model_prefix', '')}."
    parts = {name for name, _ in getattr(module, "base_model", module).named_children()}
    surplus = sorted(
        name
        for name in unexpected
        if name.removeprefix(prefix).partition(".")[0] in parts and not _NO_WEIGHTS.fullmatch(name)
    )
    if surplus:
        raise ModelLoadFailed(f"{surplus[0]} has no place in {recipe.name}: config.json is wrong")


def failed(name: str, what: str, error: Exception) -> Exception:
    """Return what to raise where the library cannot do something with a checkpoint."""
    if isinstance(error, torch.OutOfMemoryError):
        return error  # The load may be tried again.
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return ModelLoadFailed(f"{name}: {what}: {reason:.300}")
