"""A structure that is more than a prompt holds, dealt out to several; their findings joined again.

What a score rests on alone can be dealt out: a label of the entities, a label of a question that
takes several, a relation, a kind of record. A question with one answer shares a softmax among all
its labels, so it stays whole. Knows no tokens and no model.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence

from sie_mcp import wire
from sie_mcp.adapters.gliner2.prompts import Asked
from sie_mcp.wire_structure import Structure


def deal(structure: Structure, make: Callable[[Structure], Asked], max_tokens: int) -> list[Asked]:
    """Deal a structure out to prompts, neighbours together, in order and evenly.

    Args:
        structure: What is looked for.
        make: Makes one prompt.
        max_tokens: Of a prompt.

    Returns:
        One prompt where it fits. What cannot be parted is not, whatever its size.
    """
    asked = make(structure)
    units = list(_units(structure)) if asked.num_tokens > max_tokens else []
    if len(units) < 2:
        return [asked]
    num_prompts = min(-(-asked.num_tokens // max_tokens), len(units))
    ends = [place * len(units) // num_prompts for place in range(num_prompts + 1)]
    return [
        prompt
        for first, last in itertools.pairwise(ends)
        for prompt in deal(_joined(units[first:last]), make, max_tokens)
    ]


def merge(
    parts: Sequence[wire.ExtractedItem], structure: Structure, top_k: int | None
) -> wire.ExtractedItem:
    """Join what the prompts of one text found: spans by place, answers by question and score."""
    if len(parts) == 1:
        return parts[0]
    entities = [one for part in parts for one in part.entities or ()]
    entities.sort(key=lambda one: (one.start, one.end, one.label))
    answers: dict[str | None, list[wire.Classification]] = {
        question.name: [] for question in structure.classifications
    }
    for part in parts:
        for answer in part.classifications or ():
            answers[answer.task].append(answer)
    return wire.ExtractedItem(
        entities=entities,
        relations=[one for part in parts for one in part.relations or ()],
        records=[one for part in parts for one in part.records or ()],
        classifications=[
            one
            for own in answers.values()
            for one in sorted(own, key=lambda answer: -answer.score)[:top_k]
        ],
    )


def _units(structure: Structure) -> Iterator[Structure]:
    """Yield the least parts, in the order in which a prompt names them."""
    for record in structure.records:
        yield Structure.model_construct(records=[record])
    for label, description in structure.entities.items():
        yield Structure.model_construct(entities={label: description})
    for name, description in structure.relations.items():
        yield Structure.model_construct(relations={name: description})
    for question in structure.classifications:
        if not question.multi_label:
            yield Structure.model_construct(classifications=[question])
            continue
        for label, description in question.labels.items():
            one = question.model_copy(update={"labels": {label: description}})
            yield Structure.model_construct(classifications=[one])


def _joined(units: Sequence[Structure]) -> Structure:
    """Return units as one structure; a question's labels are together again."""
    questions = {one.name: one for unit in units for one in unit.classifications}
    for name, question in questions.items():
        own = [one for unit in units for one in unit.classifications if one.name == name]
        labels = {label: told for one in own for label, told in one.labels.items()}
        questions[name] = question.model_copy(update={"labels": labels})
    return Structure.model_construct(
        records=[one for unit in units for one in unit.records],
        entities={label: told for unit in units for label, told in unit.entities.items()},
        relations={name: told for unit in units for name, told in unit.relations.items()},
        classifications=list(questions.values()),
    )
