"""Scripts over the chart: its documents, its dashboards, the programs that check it."""
