"""Code that every job on NVIDIA GPUs shares: compiling, launching, rank codes, rows in chunks."""
