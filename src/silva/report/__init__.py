"""Explanations for people: tables and pictures."""

from silva.report.pictures import save_beeswarm
from silva.report.table import ranked_table

__all__ = ["ranked_table", "save_beeswarm"]
