"""A forest that was read from a live model against what the model itself predicts, on rows made from the forest."""
