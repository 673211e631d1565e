from silva.display.code import export_c, export_excel, export_python, export_sql
from silva.display.plot import plot_history, plot_over_time
from silva.display.report import report
from silva.display.text import export_text
from silva.display.tree_plot import plot_tree
from silva.distillation import distill
from silva.explain import Explainer, Summary, TreeExplainer, patch_shap
from silva.forest import Forest
from silva.grow import (
    ModelTreeClassifier,
    ModelTreeEnsembleClassifier,
    ModelTreeEnsembleRegressor,
    ModelTreeRegressor,
    TreeSearch,
)
from silva.inspection import effects, partial_dependence, permutation_importance
from silva.loading import load
from silva.neighbors import LeafEncoder, Neighbors
from silva.populations import compare, difference

__all__ = [
    "Explainer",
    "Forest",
    "LeafEncoder",
    "ModelTreeClassifier",
    "ModelTreeEnsembleClassifier",
    "ModelTreeEnsembleRegressor",
    "ModelTreeRegressor",
    "Neighbors",
    "Summary",
    "TreeExplainer",
    "TreeSearch",
    "__version__",
    "compare",
    "difference",
    "distill",
    "effects",
    "export_c",
    "export_excel",
    "export_python",
    "export_sql",
    "export_text",
    "load",
    "partial_dependence",
    "patch_shap",
    "permutation_importance",
    "plot_history",
    "plot_over_time",
    "plot_tree",
    "report",
]

__version__: str
