"""Forests in other libraries' files."""
