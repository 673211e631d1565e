"""Models of MLflow: forests and explainers that its registry keeps, and that serve predictions and SHAP values."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glasswood import __version__
from glasswood.base.escapes import shown
from glasswood.base.extras import import_extra
from glasswood.explain import Explainer
from glasswood.loading import load

if TYPE_CHECKING:
    from glasswood.forest import Forest

FLAVOR = "glasswood"
FILES = {"explainer": "explainer.glasswood", "forest": "forest.glasswood"}


def save_model(model: Any, path: str | os.PathLike[str], **about: Any) -> None:
    """Save a forest or an explainer as an MLflow model.

    Parameters
    ----------
    model : Explainer, Forest, or any model that `glasswood.load` reads
    path : path
        A folder that does not exist.
    **about
        Other arguments of ``mlflow.pyfunc.save_model``, such as `signature`, `input_example` and `metadata`.
        `pip_requirements` is this version of glasswood, with pandas, by default.

    Raises
    ------
    ImportError
        Without MLflow.
    ValueError, TypeError
        As for `Forest.save` and `Explainer.save`.

    See Also
    --------
    load_model : reads it.

    Notes
    -----
    ``mlflow.pyfunc.load_model(path).predict(X)`` returns predictions. With ``params={"output": "values"}`` it returns
    SHAP values, with a column for each feature; other values are those of `Forest.predict`. pandas frames keep their
    index. A signature must contain the parameter: ``infer_signature(X, y, params={"output": "prediction"})``.
    """
    pyfunc = import_extra("mlflow.pyfunc", "mlflow", "models of MLflow need its package")
    kind = "explainer" if isinstance(model, Explainer) else "forest"
    described = about.pop("mlflow_model", None) or import_extra("mlflow.models", "mlflow", "models of MLflow").Model()
    described.add_flavor(FLAVOR, glasswood_version=__version__, kind=kind)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / FILES[kind]
        (model if kind == "explainer" else load(model)).save(file)
        about = {"pip_requirements": [f"glasswood=={__version__}", "pandas"]} | about
        pyfunc.save_model(str(path), loader_module=__name__, data_path=str(file), mlflow_model=described, **about)


def log_model(model: Any, name: str = "model", **about: Any) -> Any:
    """Log a forest or an explainer to the active run of MLflow.

    Parameters
    ----------
    model : Explainer, Forest, or any model that `glasswood.load` reads
    name : str
    **about
        Other arguments of ``mlflow.models.Model.log``, such as `registered_model_name`, and of `save_model`.

    Returns
    -------
    mlflow.models.model.ModelInfo
    """
    models = import_extra("mlflow.models", "mlflow", "models of MLflow need its package")
    return models.Model.log(artifact_path=None, name=name, flavor=sys.modules[__name__], model=model, **about)


def load_model(model_uri: str, dst_path: str | None = None) -> Forest | Explainer:
    """Read what `save_model` or `log_model` wrote, from a path or an MLflow URI.

    Parameters
    ----------
    model_uri : str
        A path, or a URI such as ``models:/name/1``.
    dst_path : str, optional
        Folder for files that are downloaded.

    Returns
    -------
    Forest or Explainer
    """
    artifacts = import_extra("mlflow.artifacts", "mlflow", "models of MLflow need its package")
    return _read(Path(artifacts.download_artifacts(artifact_uri=str(model_uri), dst_path=dst_path)) / "data")


def _read(path: Path) -> Forest | Explainer:
    """Read the file of a model, or that in its folder."""
    files = [path] if path.is_file() else [path / name for name in FILES.values() if (path / name).is_file()]
    if not files:
        raise ValueError(
            f"{shown(path)} holds neither {' nor '.join(FILES.values())}; glasswood.mlflow.save_model writes one"
        )
    file = files[0]
    return Explainer.load(file) if file.name == FILES["explainer"] else load(file)


def _load_pyfunc(path: str) -> _Served:
    """Make what ``mlflow.pyfunc.load_model`` calls."""
    return _Served(_read(Path(path)))


class _Served:
    """A model with the methods that MLflow calls."""

    def __init__(self, model: Forest | Explainer) -> None:
        self._model = model

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> Any:
        """Predict or explain rows."""
        output = (params or {}).get("output", "prediction")
        is_frame = hasattr(model_input, "iloc")
        if output == "values":
            explainer = self._model if isinstance(self._model, Explainer) else Explainer(self._model)
            return explainer.shap_values(model_input, as_frame=is_frame)
        forest = self._model.forest if isinstance(self._model, Explainer) else self._model
        return forest.predict(model_input, output, as_frame=is_frame and output != "prediction")
