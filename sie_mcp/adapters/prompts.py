"""Which text is put in front of an item, in the order of sentence-transformers.

An explicit prompt, then a prompt's name, then the caller's instruction, then the prompt of the
item's role (query or document), then the checkpoint's default. An item without a role has the
last alone, as with the library's plain `encode`; but models of late interaction know no third role,
for them it is a document.
"""

from sie_mcp import wire
from sie_mcp.adapters.recipe import Recipe
from sie_mcp.catalogue.entries import INSTRUCTION
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
        return recipe.instruction_template.replace(INSTRUCTION, params.instruction)
    default = recipe.prompts.get(recipe.default_prompt_name or "", "")
    if options.is_query is None and recipe.tasks[0] != "multivector":
        return default
    if options.is_query:
        return recipe.prompts.get("query", default)
    # The library writes an empty "document" into every file: it says nothing about "passage".
    own = [recipe.prompts[name] for name in _DOCUMENT_NAMES if recipe.prompts.get(name)]
    return own[0] if own else default
