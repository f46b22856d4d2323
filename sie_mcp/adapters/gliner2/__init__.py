"""GLiNER2: entities, relations, records and labels of one text, asked for in one schema."""
