"""Splits, leaves and trees in words."""
