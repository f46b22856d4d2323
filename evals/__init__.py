"""Evaluations: quality, speed and agent token economy, on real models and data."""
