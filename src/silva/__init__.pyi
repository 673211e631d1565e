from silva.explain import Explainer
from silva.forest import Forest
from silva.grow import ModelTreeClassifier, ModelTreeEnsembleRegressor, ModelTreeRegressor
from silva.loading import load
from silva.report.code import export_c, export_excel, export_python, export_sql
from silva.report.plot import plot_history, plot_tree
from silva.report.text import export_text

__all__ = [
    "Explainer",
    "Forest",
    "ModelTreeClassifier",
    "ModelTreeEnsembleRegressor",
    "ModelTreeRegressor",
    "__version__",
    "export_c",
    "export_excel",
    "export_python",
    "export_sql",
    "export_text",
    "load",
    "plot_history",
    "plot_tree",
]

__version__: str
