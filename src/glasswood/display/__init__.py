"""Trees and explanations for people: texts, tables and pictures."""

from glasswood.display.pictures import import_plotting, save_beeswarm
from glasswood.display.table import ranked_table

__all__ = ["import_plotting", "ranked_table", "save_beeswarm"]
