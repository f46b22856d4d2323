"""Kernels in Triton for what torch needs several passes over memory for; optional everywhere."""
