"""glasswood grows, evaluates and explains decision trees on parallel hardware."""

__version__ = "0.1.0.dev0"

_PUBLIC = {
    "AdditiveClassifier": "glasswood.grow",
    "AdditiveRegressor": "glasswood.grow",
    "Explainer": "glasswood.explain",
    "Forest": "glasswood.forest",
    "LeafEncoder": "glasswood.neighbors",
    "ModelTreeClassifier": "glasswood.grow",
    "ModelTreeEnsembleClassifier": "glasswood.grow",
    "ModelTreeEnsembleRegressor": "glasswood.grow",
    "ModelTreeRegressor": "glasswood.grow",
    "Neighbors": "glasswood.neighbors",
    "ScoreValues": "glasswood.explain",
    "Summary": "glasswood.explain",
    "TreeExplainer": "glasswood.explain",
    "additive": "glasswood.distillation",
    "compare": "glasswood.populations",
    "config_context": "glasswood.base.config",
    "difference": "glasswood.populations",
    "distill": "glasswood.distillation",
    "effects": "glasswood.inspection",
    "export_c": "glasswood.display.code",
    "export_excel": "glasswood.display.code",
    "export_python": "glasswood.display.code",
    "export_sql": "glasswood.display.code",
    "export_text": "glasswood.display.text",
    "get_config": "glasswood.base.config",
    "load": "glasswood.loading",
    "partial_dependence": "glasswood.inspection",
    "patch_shap": "glasswood.explain",
    "permutation_importance": "glasswood.inspection",
    "plot_history": "glasswood.display.plot",
    "plot_over_time": "glasswood.display.plot",
    "plot_tree": "glasswood.display.tree_plot",
    "report": "glasswood.display.report",
    "score_values": "glasswood.explain",
    "set_config": "glasswood.base.config",
}
"""Names by the module that defines them, imported on first use; __init__.pyi tells type checkers."""

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in {"dask", "datasets", "mlflow"}:  # their functions have names of their own: glasswood.dask.predict
        return import_module(f"glasswood.{name}")
    if name not in _PUBLIC:
        raise AttributeError(f"module 'glasswood' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_PUBLIC[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
