"""Predictions of forests."""
