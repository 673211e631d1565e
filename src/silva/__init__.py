"""silva grows, evaluates and explains decision trees on parallel hardware."""

__version__ = "0.1.0.dev0"

_PUBLIC = {
    "Explainer": "silva.explain",
    "Forest": "silva.forest",
    "LeafEncoder": "silva.neighbors",
    "ModelTreeClassifier": "silva.grow",
    "ModelTreeEnsembleClassifier": "silva.grow",
    "ModelTreeEnsembleRegressor": "silva.grow",
    "ModelTreeRegressor": "silva.grow",
    "Neighbors": "silva.neighbors",
    "Summary": "silva.explain",
    "TreeExplainer": "silva.explain",
    "TreeSearch": "silva.grow",
    "compare": "silva.populations",
    "difference": "silva.populations",
    "distill": "silva.distillation",
    "effects": "silva.inspection",
    "export_c": "silva.display.code",
    "export_excel": "silva.display.code",
    "export_python": "silva.display.code",
    "export_sql": "silva.display.code",
    "export_text": "silva.display.text",
    "load": "silva.loading",
    "partial_dependence": "silva.inspection",
    "patch_shap": "silva.explain",
    "permutation_importance": "silva.inspection",
    "plot_history": "silva.display.plot",
    "plot_over_time": "silva.display.plot",
    "plot_tree": "silva.display.tree_plot",
    "report": "silva.display.report",
}
"""Names by the module that defines them, imported on first use; __init__.pyi tells type checkers."""

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in {"dask", "datasets", "mlflow"}:  # their functions have names of their own: silva.dask.predict
        return import_module(f"silva.{name}")
    if name not in _PUBLIC:
        raise AttributeError(f"module 'silva' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_PUBLIC[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
