"""The model as data: flat arrays, their checks, their file."""
