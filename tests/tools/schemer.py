"""A worker whose only model finds fields and relations by their signs in a text."""

import re
from collections.abc import Sequence
from typing import Any

from sie_mcp import wire
from sie_mcp.wire_structure import FieldValue, Record
from tests.tools.fake_worker import FakeWorker

INVOICE = {
    "type": "object",
    "title": "invoice",
    "properties": {
        "number": {"type": "string"},
        "total": {"type": ["number", "null"], "description": "with tax"},
        "copies": {"type": "integer"},
        "paid": {"type": "boolean"},
        "currency": {"enum": ["EUR", "USD"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "items": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "price": {"type": "number"}},
            },
        },
    },
    "required": ["number"],
}


class Schemer(FakeWorker):
    """Finds "field:value" for records, "a -> b" for every relation."""

    def __init__(self) -> None:
        super().__init__()
        self.card = wire.ModelCard(
            name="toy-schemer",
            primitives=["extract"],
            outputs=["entities", "relations", "classifications", "records"],
        )
        self.extra_cards = [self.card]
        self.asked: list[wire.ExtractOptions] = []

    async def model(self, name: str) -> wire.ModelCard:
        return self.card if name == "toy-schemer" else await super().model(name)

    async def extract(self, model: str, items: Sequence[wire.Item], params: Any = None, **_: Any):
        if params is None:
            return wire.ExtractResponse(model=model, items=[wire.ExtractedItem() for _ in items])
        self.asked.append(params.options)
        found = [self._found(item.text or "", params.options.structure) for item in items]
        return wire.ExtractResponse(model=model, items=found)

    def _found(self, text: str, asked: Any) -> wire.ExtractedItem:
        if "FAIL" in text:
            return wire.ExtractedItem(error=wire.ItemError(code="X", message="no memory"))
        records = []
        for spec in asked.records:
            for part in re.finditer(rf"{spec.name}( [^|]*)", text):
                shift = part.start(1)
                fields = {
                    one.name: [
                        FieldValue(
                            text=m[1], score=0.9, start=shift + m.start(1), end=shift + m.end(1)
                        )
                        for m in re.finditer(rf"{one.name}:([^;|]*)", part[1])
                    ]
                    for one in spec.fields
                }
                if any(fields.values()):
                    records.append(Record(name=spec.name, fields=fields))
        relations = [
            wire.Relation(
                head=m[1], tail=m[2], relation=name, score=0.8,
                head_start=m.start(1), head_end=m.end(1), tail_start=m.start(2), tail_end=m.end(2),
            )
            for name in asked.relations
            for m in re.finditer(r"(\w+) -> (\w+)", text)
        ]  # fmt: skip
        return wire.ExtractedItem(records=records, relations=relations)
