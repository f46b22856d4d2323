"""Which text is put in front of an item, in the order of sentence-transformers.

An explicit prompt, then a prompt's name, then the caller's instruction, then the prompt of the
item's role (query or document), then the checkpoint's default.
"""

from sie_mcp import wire
from sie_mcp.adapters.recipe import Recipe
from sie_mcp.errors import InvalidInput

_DOCUMENT_NAMES = ("document", "passage", "corpus")


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
        return params.instruction
    names = ("query",) if options.is_query else _DOCUMENT_NAMES
    for name in (*names, recipe.default_prompt_name):
        if name is not None and recipe.prompts.get(name):
            return recipe.prompts[name]
    return ""
