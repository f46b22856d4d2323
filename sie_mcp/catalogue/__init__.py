"""Known models and taxonomies as data, and how to fetch them."""
