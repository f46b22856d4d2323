"""Routing rules on simulated workers; `python -m evals.cluster_sim` compares them."""
