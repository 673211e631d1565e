"""Explanations on NVIDIA GPUs."""
