from glasswood.base.config import config_context, get_config, set_config
from glasswood.display.code import export_c, export_excel, export_python, export_sql
from glasswood.display.plot import plot_history, plot_over_time
from glasswood.display.report import report
from glasswood.display.text import export_text
from glasswood.display.tree_plot import plot_tree
from glasswood.distillation import additive, distill
from glasswood.explain import Explainer, ScoreValues, Summary, TreeExplainer, patch_shap, score_values
from glasswood.forest import Forest
from glasswood.grow import (
    AdditiveClassifier,
    AdditiveRegressor,
    ModelTreeClassifier,
    ModelTreeEnsembleClassifier,
    ModelTreeEnsembleRegressor,
    ModelTreeRegressor,
)
from glasswood.inspection import effects, partial_dependence, permutation_importance
from glasswood.loading import load
from glasswood.neighbors import LeafEncoder, Neighbors
from glasswood.populations import compare, difference

__all__ = [
    "AdditiveClassifier",
    "AdditiveRegressor",
    "Explainer",
    "Forest",
    "LeafEncoder",
    "ModelTreeClassifier",
    "ModelTreeEnsembleClassifier",
    "ModelTreeEnsembleRegressor",
    "ModelTreeRegressor",
    "Neighbors",
    "ScoreValues",
    "Summary",
    "TreeExplainer",
    "__version__",
    "additive",
    "compare",
    "config_context",
    "difference",
    "distill",
    "effects",
    "export_c",
    "export_excel",
    "export_python",
    "export_sql",
    "export_text",
    "get_config",
    "load",
    "partial_dependence",
    "patch_shap",
    "permutation_importance",
    "plot_history",
    "plot_over_time",
    "plot_tree",
    "report",
    "score_values",
    "set_config",
]

__version__: str
