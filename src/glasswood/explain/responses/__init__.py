"""Exact values of probabilities, losses and other responses of the margins."""
