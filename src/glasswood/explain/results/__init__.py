"""What calls of explainers return: explanations, sentences, importance, summaries over rows of files."""
