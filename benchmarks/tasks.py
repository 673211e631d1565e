"""Ten tasks of people who show models: calls and lines beside other libraries, each of which is run.

``python -m benchmarks.tasks`` prints the table of docs/guide/tasks.md, with the libraries' versions. What is not
installed, or fails, is said below it. The libraries do not go together with the other benchmarks' environment: shapash,
explainerdashboard, dtreeviz and interpret-core need one of their own, beside glasswood.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.metadata
import io
import logging
import os
import tempfile
import warnings

LIBRARIES = {
    "glasswood": "glasswood",
    "shap": "shap",
    "dtreeviz": "dtreeviz",
    "explainerdashboard": "explainerdashboard",
    "shapash": "shapash",
    "EBM": "interpret-core",
}
"""Names of the columns, and of the packages."""

SETUP = """
import glasswood, numpy, pandas
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestRegressor
from sklearn.tree import DecisionTreeRegressor
X, y = glasswood.datasets.california()
X, y = X[:600], y[:600]
model = RandomForestRegressor(20, max_depth=5, random_state=0).fit(X, y)
classifier = HistGradientBoostingClassifier(max_iter=10).fit(X, y > y.median())
grown = glasswood.ModelTreeRegressor(max_leaves=3, time_limit=2, verbose=False).fit(X, y)
single = DecisionTreeRegressor(max_depth=3).fit(X, y)
"""

OWN = {
    "shap": "import shap",
    "dtreeviz": "import dtreeviz",
    "explainerdashboard": "from explainerdashboard import ExplainerDashboard, RegressionExplainer",
    "shapash": "from shapash import SmartExplainer",
    "EBM": "from interpret.glassbox import ExplainableBoostingRegressor\n"
    "ebm = ExplainableBoostingRegressor(outer_bags=2).fit(X, y)",
}
"""What each library's code begins with; EBM explains its own models."""

TASKS = {
    "Which features matter, as a table": {
        "glasswood": "glasswood.Explainer(model).importance(X)",
        "shap": "values = shap.TreeExplainer(model)(X).values\n"
        "pandas.Series(numpy.abs(values).mean(axis=0), X.columns).sort_values()",
        "explainerdashboard": "RegressionExplainer(model, X, y).get_mean_abs_shap_df()",
        "shapash": "explainer = SmartExplainer(model=model)\nexplainer.compile(x=X)\n"
        "explainer.plot.features_importance()",
        "EBM": "pandas.Series(ebm.term_importances(), ebm.term_names_)",
    },
    "Why this customer: reasons with values": {
        "glasswood": "glasswood.Explainer(model).row(top=3, names=True)(X.iloc[0].to_dict())",
        "shap": "row = shap.TreeExplainer(model)(X[:1])[0]\n"
        "order = numpy.argsort(-numpy.abs(row.values))[:3]\n"
        "[(X.columns[i], row.data[i], row.values[i]) for i in order]",
        "dtreeviz": "tree = dtreeviz.model(single, X, y, feature_names=list(X.columns), target_name='y')\n"
        "tree.explain_prediction_path(X.iloc[0].to_numpy())",
        "explainerdashboard": "RegressionExplainer(model, X, y).get_contrib_df(0)",
        "shapash": "explainer = SmartExplainer(model=model)\nexplainer.compile(x=X)\n"
        "explainer.to_pandas(max_contrib=3)",
        "EBM": "ebm.explain_local(X[:1]).data(0)",
    },
    "Why this customer, in sentences": {
        "glasswood": "glasswood.Explainer(model).sentences(X.iloc[0], language='de')",
    },
    "What changed the mean since last month": {
        "glasswood": "glasswood.compare(X[:300], X[300:], model=model)",
        "shap": "explainer = shap.TreeExplainer(model, X[:300])\n"
        "explainer(X[300:], check_additivity=False).values.mean(axis=0)",
    },
    "The formula in Excel": {"glasswood": "glasswood.export_excel(grown, 'tree.xlsx')"},
    "SQL in a warehouse": {
        "glasswood": "glasswood.export_sql(model, 'snowflake', table='ROWS', keep=['ID'])",
    },
    "A report that opens offline": {
        "glasswood": "glasswood.report(model, X, y, 'report.html')",
        "explainerdashboard": "explainer = RegressionExplainer(model, X, y)\n"
        "ExplainerDashboard(explainer).save_html('dashboard.html')",
    },
    "A picture of a tree": {
        "glasswood": "glasswood.plot_tree(grown, X, y)",
        "dtreeviz": "tree = dtreeviz.model(single, X, y, feature_names=list(X.columns), target_name='y')\ntree.view()",
    },
    "Values of a probability against chosen rows": {
        "glasswood": "glasswood.Explainer(classifier, X[:50], output='probability').shap_values(X[:20])",
        "shap": "shap.TreeExplainer(classifier, X[:50], model_output='probability').shap_values(X[:20])",
    },
    "The effect of a feature on average": {
        "glasswood": "glasswood.partial_dependence(model, X, 'MedInc')",
        "shap": "shap.plots.partial_dependence('MedInc', model.predict, X, show=False)",
        "explainerdashboard": "RegressionExplainer(model, X, y).pdp_df('MedInc')",
        "EBM": "ebm.explain_global().data(0)",
    },
}
"""Code of each task in each library that has it."""


def measured(code: str) -> str:
    """Count the lines and the calls of code."""
    calls = sum(isinstance(node, ast.Call) for node in ast.walk(ast.parse(code)))
    return f"{len(code.splitlines())} / {calls}"


def failed(library: str, code: str, space: dict[str, object]) -> str:
    """Run code; say what went wrong, if anything did."""
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            exec(f"{OWN.get(library, '')}\n{code}", dict(space))
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return ""


def main() -> None:
    """Run all code, and print the table and what failed."""
    versions, problems = {}, []
    for library, package in LIBRARIES.items():
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[library] = importlib.metadata.version(package)
    if "glasswood" not in versions:
        import glasswood

        versions["glasswood"] = glasswood.__version__
    import matplotlib

    matplotlib.use("Agg")
    space: dict[str, object] = {}
    os.chdir(tempfile.mkdtemp())
    logging.disable(logging.INFO)
    exec(SETUP, space)
    names = [f"{library} {versions.get(library, '(not installed)')}" for library in LIBRARIES]
    print("| task | " + " | ".join(names) + " |")
    print("|---|" + "---|" * len(names))
    for task, by_library in TASKS.items():
        cells = []
        for library in LIBRARIES:
            code = by_library.get(library)
            cells.append("no" if code is None else measured(code))
            if code is not None and library in versions and (why := failed(library, code, space)):
                problems.append(f"{library}, {task}: {why}")
                cells[-1] += " *"
        print(f"| {task} | " + " | ".join(cells) + " |", flush=True)
    print("\n".join(problems))


if __name__ == "__main__":
    main()
