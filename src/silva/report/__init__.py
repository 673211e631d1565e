"""Explanations for people: tables and pictures."""

from silva.report.pictures import import_plotting, save_beeswarm
from silva.report.table import ranked_table

__all__ = ["import_plotting", "ranked_table", "save_beeswarm"]
