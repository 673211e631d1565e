"""Growing on NVIDIA GPUs."""
