"""Recipes that a user picks: which tools to call in which order, for five common jobs.

A prompt is offered only where all the tools that it names are.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from mcp import MCPError
from mcp.server import MCPServer
from mcp.server.mcpserver.prompts.base import Prompt as MadePrompt
from mcp.types import INVALID_PARAMS, Prompt, PromptArgument
from pydantic import Field

from sie_mcp.tools.context import ToolContext

MAX_NAME_CHARS = 80
Files = Annotated[str, Field(description="A file, or a pattern of files such as docs/**/*.md.")]
NewFile = Annotated[str, Field(description="A new .csv, .jsonl or .parquet file for the results.")]


def triage_folder(
    path: Files,
    question: Annotated[str, Field(description="What the documents should be about.")],
) -> str:
    """Find the few documents of a folder that are worth reading for a question."""
    return f"""\
Find out which of the documents at {path!r} are worth reading for this: {question}

1. `filter_context` with query={question!r} and path={path!r}: what comes back names its source. \
The sources that take most of the room are the candidates.
2. Where several candidates are left, put what was kept of each into one `rerank` call with the \
same query, as {{id, text}} with the source as id.
3. Open only the best two or three, at the places named.

Report a list, best first: the file and the place, and in one sentence what it says on the \
question. Say which documents say nothing on it, and do not read those."""


def classify_catalogue(
    path: Annotated[str, Field(description="The catalogue: a .csv, .jsonl or .parquet file.")],
    output_path: NewFile,
    taxonomy: Annotated[str, Field(description="shopify, or a file of categories.")] = "shopify",
) -> str:
    """Put every product of a catalogue into a category, and check only what is unsure."""
    return f"""\
Classify the products in {path!r} into the taxonomy {taxonomy!r}. Do not read the file.

1. `classify_taxonomy` with path={path!r}, taxonomy={taxonomy!r}, min_confidence=0.7 and \
output_path={output_path!r}. If the columns are not clear it says which there are: take those that \
say what the product is (title, description), not prices or codes.
2. Look at `counts` and `least_sure` of the answer. Where a category looks wrong, repeat with \
other columns and another output_path, and compare.
3. For what stays unsure look at the alternatives in the results; take one of them or leave \
the row for a person. Invent no category.

Report how many products there are, the largest categories, how many are unsure, and the file."""


def build_knowledge_graph(
    path: Files,
    output_path: NewFile,
    kinds: Annotated[
        str, Field(description="What to look for, such as: person, organisation, place.")
    ] = "person, organisation, place",
    model: Annotated[str, Field(description="An extractor, if you know which.")] = "",
) -> str:
    """Get the entities of documents and how they are related, each with where it is said."""
    choice = (
        f"use the model {model!r}"
        if model
        else f"choose a model whose labels fit {kinds}. The default one knows personal data only"
    )
    return f"""\
Build a knowledge graph of {kinds} from the documents at {path!r}. Do not read them as a whole.

1. `list_models` with primitive="extract": {choice}.
2. `extract_entities` with that model, labels={kinds!r}, path={path!r} and \
output_path={output_path!r}: a row for each mention, with its source and place.
3. `embed` with the different names as texts: pairs of high cosine may be two spellings of one \
entity. Join them only where the names agree too.
4. For each important entity `filter_context` with path={path!r} and a query such as "How is NAME \
related to others?": read the kept sentences only.
5. Write a triple (subject, relation, object) for each relation that a sentence states, with its \
source. No triple without a sentence, none from what you know otherwise.

Report the triples, and the entities for which no relation was found."""


def find_answer(
    path: Annotated[str, Field(description="The document, or a pattern of several.")],
    question: Annotated[str, Field(description="The question to answer.")],
) -> str:
    """Answer a question from a long document without reading all of it."""
    return f"""\
Answer from {path!r}, without reading all of it: {question}

1. `filter_context` with query={question!r}, path={path!r}, max_tokens=500 and prose=true.
2. If the answer is not in what was kept, ask once more in the document's own words (names, \
terms), then with max_tokens=2000.
3. If two places contradict each other, `rerank` them with the question and read around the best.

Answer in a few sentences, and cite for each the source and place as given. If it is not there say \
so; the question may be about all of the document, which needs reading."""


def correct_catalogue(
    path: Annotated[str, Field(description="The catalogue: a .csv, .jsonl or .parquet file.")],
    output_path: NewFile,
    examples: Annotated[str, Field(description="A .csv to keep corrections in, old or new.")],
    taxonomy: Annotated[str, Field(description="shopify, or a file of categories.")] = "shopify",
) -> str:
    """Classify a catalogue, correct its least sure rows, and classify again with those."""
    return f"""\
Classify the products in {path!r} into the taxonomy {taxonomy!r}, and do better the second time.

1. `classify_taxonomy` with path={path!r}, taxonomy={taxonomy!r} and output_path={output_path!r}; \
if {examples!r} is there already, with examples={examples!r} too.
2. `review_uncertain` with the output_path of the answer as path and max_confidence=0.8, page by \
page. Decide each row among its path and alternatives by what the product is. Where none fits \
leave the row for a person.
3. `store_corrections` with that path and taxonomy, the rows that you decided by their index, and \
examples={examples!r}; those that were right too, without a category: examples that are only \
mistakes teach less. Twenty or more are worth a second run.
4. `classify_taxonomy` once more with examples={examples!r} and another output_path.
5. `explain` a row that is still wrong, by the new path, its index, taxonomy and examples, to see \
what speaks for its neighbours.

Report how many rows were unsure before and after, what you corrected, and which rows a person \
should look at."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """A prompt and the tools that it names, in the order of their use."""

    function: Callable[..., str]
    title: str
    tools: tuple[str, ...]


RECIPES = (
    Recipe(triage_folder, "Triage a folder", ("filter_context", "rerank")),
    Recipe(classify_catalogue, "Classify a catalogue", ("classify_taxonomy",)),
    Recipe(
        build_knowledge_graph,
        "Build a knowledge graph",
        ("list_models", "extract_entities", "embed", "filter_context"),
    ),
    Recipe(find_answer, "Find the answer in a long document", ("filter_context", "rerank")),
    Recipe(
        correct_catalogue,
        "Correct a classified catalogue",
        ("classify_taxonomy", "review_uncertain", "store_corrections", "explain"),
    ),
)


def add_prompts(server: MCPServer[ToolContext], tools: Collection[str]) -> None:
    """Register the recipes for which all tools are there."""
    for recipe in RECIPES:
        if set(recipe.tools) <= set(tools):
            server.add_prompt(MadePrompt.from_function(recipe.function, title=recipe.title))


def check_prompt(prompts: Sequence[Prompt], name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that say something: a blank one is as if it were not there.

    Raises:
        MCPError: no such prompt, or an argument that it lacks or does not know.
    """
    arguments = find_arguments(prompts, name, given)
    filled = {key: value for key, value in given.items() if str(value).strip()}
    for argument in arguments:
        if argument.required and argument.name not in filled:
            raise _invalid(f"{name} needs {argument.name}; its arguments: {_names(arguments)}")
    return filled


def find_arguments(
    prompts: Sequence[Prompt], name: str, given: Iterable[str]
) -> Sequence[PromptArgument]:
    """Return a prompt's arguments; those that are given are among them.

    Raises:
        MCPError: no such prompt, or it does not know one of them.
    """
    prompt = next((prompt for prompt in prompts if prompt.name == name), None)
    if prompt is None:
        known = ", ".join(prompt.name for prompt in prompts) or "none"
        raise _invalid(f"there is no prompt {name[:MAX_NAME_CHARS]!r}; there are: {known}")
    arguments = prompt.arguments or []
    known_names = {argument.name for argument in arguments}
    for key in given:
        if key not in known_names:
            raise _invalid(
                f"{name} has no argument {key[:MAX_NAME_CHARS]!r}; its arguments: "
                f"{_names(arguments)}"
            )
    return arguments


def _names(arguments: Sequence[PromptArgument]) -> str:
    return ", ".join(argument.name for argument in arguments)


def _invalid(message: str) -> MCPError:
    return MCPError(code=INVALID_PARAMS, message=message)
