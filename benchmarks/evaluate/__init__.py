"""Benchmarks of predictions."""
