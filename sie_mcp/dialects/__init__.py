"""Other servers' HTTP shapes over our three primitives. Pure translation: no HTTP, no model."""
