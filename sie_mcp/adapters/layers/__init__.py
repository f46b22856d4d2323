"""Parts that architectures share; the attention kernels lie behind one function."""
