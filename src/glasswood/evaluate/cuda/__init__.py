"""Predictions on NVIDIA GPUs."""
