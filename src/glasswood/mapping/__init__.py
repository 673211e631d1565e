"""From batches of rows to batches of results, wherever they are: one picklable object for all engines."""
