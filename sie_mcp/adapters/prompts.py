"""Which text is put in front of an item, in the order of sentence-transformers.

An explicit prompt, then a prompt's name, then the caller's instruction, then that of the
checkpoint's own adapter which reads the item, then the prompt of the item's role (query or
document), then the checkpoint's default. An item without a role has the last alone, as with the
library's plain `encode`; but models of late interaction know no third role, for them it is a
document.
"""

from sie_mcp import wire
from sie_mcp.adapters.recipe import Recipe
from sie_mcp.catalogue.entries import INSTRUCTION
from sie_mcp.errors import InvalidInput

_DOCUMENT_NAMES = ("document", "passage", "corpus")
# Jina's names of the adapters for a search's two sides.
_QUERY_LORA, _DOCUMENT_LORA = "retrieval.query", "retrieval.passage"


def choose_prompt(recipe: Recipe, params: wire.EncodeParams) -> str:
    """Return the prompt, "" for none.

    Raises:
        InvalidInput: a prompt name that the model does not have.
    """
    options = params.options
    if options.prompt is not None:
        return options.prompt
    if options.prompt_name is not None:
        if options.prompt_name not in recipe.prompts:
            known = ", ".join(recipe.prompts) or "none"
            raise InvalidInput(
                f"{recipe.name} has no prompt {options.prompt_name!r}; it has: {known}"
            )
        return recipe.prompts[options.prompt_name]
    if params.instruction is not None:
        return recipe.instruction_template.replace(INSTRUCTION, params.instruction)
    lora = choose_lora(recipe, options)
    if lora:
        return recipe.loras[lora]
    default = recipe.prompts.get(recipe.default_prompt_name or "", "")
    if options.is_query is None and recipe.tasks[0] != "multivector":
        return default
    if options.is_query:
        return recipe.prompts.get("query", default)
    # The library writes an empty "document" into every file: it says nothing about "passage".
    own = [recipe.prompts[name] for name in _DOCUMENT_NAMES if recipe.prompts.get(name)]
    return own[0] if own else default


def choose_lora(recipe: Recipe, options: wire.EncodeOptions) -> str:
    """Return the name of the checkpoint's own adapter, "" for none.

    The caller's, else that of the item's role; an item without a role has none, as with the
    authors' code where no task is named.
    """
    name = options.lora
    if name is None and options.is_query is not None:
        name = _QUERY_LORA if options.is_query else _DOCUMENT_LORA
    return name if name is not None and name in recipe.loras else ""
