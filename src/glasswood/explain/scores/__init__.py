"""What features add to a model's score on rows: exact values, estimates, and the result."""
