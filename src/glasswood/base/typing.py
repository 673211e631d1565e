"""Types for annotations: choices of arguments, arrays by what they hold, and records that many modules share."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

Algorithm = Literal["auto", "serial", "by_sample", "by_node", "windowed"]
"""How trees are evaluated, with one meaning on every device."""

Output = Literal["prediction", "margin", "probability", "leaf"]
"""What `Forest.predict` returns."""

ModelFormat = Literal["xgboost", "lightgbm", "catboost", "onnx", "h2o", "glasswood"]
"""Libraries whose files are read."""

SqlDialect = Literal["duckdb", "postgresql", "sqlite", "snowflake", "bigquery", "sqlserver", "mysql", "spark"]

Language = Literal["en", "de", "fr", "es"]
"""Languages of sentences."""

FloatType = Literal["float32", "float64"]

ExplainAlgorithm = Literal["auto", "tables", "quadrature", "paths"]
ExplainOutput = Literal["margin", "probability", "log_loss", "response", "decision"]
ExplainRule = Literal["exact", "rescale"]
ColumnMatch = Literal["name", "subset", "position"]
InteractionIndex = Literal["shapley", "banzhaf"]
Explained = Literal["values", "pairs"]
Fitness = Literal["bic", "weighted"]
LeafModel = Literal["linear", "constant"]
Loss = Literal["squared", "huber", "poisson", "gamma", "tweedie", "quantile"]
Noise = Literal["any", "uniform"]
Clip = Literal["target", "leaf", "none"]
GrowAlgorithm = Literal["gram", "qr"]

QuantileMethod = Literal["linear", "inverted_cdf"]
IntervalMethod = Literal["auto", "split", "jackknife+", "quantile"]

Link = Literal[
    "identity",
    "logistic",
    "softmax",
    "exp",
    "sign_square",
    "log1p_exp",
    "one_vs_all",
    "path_length",
    "exponential",
    "sorted",
    "cumulative_softplus",
    "mean_and_variance",
    "exp2",
    "softmax_zero",
    "probit",
    "log_survival",
    "shares",
]
"""Functions that turn margins into responses (glasswood.evaluate.links)."""

Prediction = Literal[
    "response",
    "margin",
    "argmax",
    "argmax_column",
    "argmax_margin",
    "positive",
    "second_positive",
    "nonnegative",
    "half",
    "sign",
]
"""What `predict` returns by default: the response, the margin, or a label by one of these rules
(glasswood.evaluate.links).
"""

ALGORITHMS: tuple[str, ...] = get_args(Algorithm)
OUTPUTS: tuple[str, ...] = get_args(Output)
MODEL_FORMATS: tuple[str, ...] = get_args(ModelFormat)
COLUMNS: tuple[str, ...] = get_args(ColumnMatch)
FLOAT_TYPES: tuple[str, ...] = get_args(FloatType)
LINKS: tuple[str, ...] = get_args(Link)
PREDICTIONS: tuple[str, ...] = get_args(Prediction)
DEVICES = ("cpu", "cuda")

Array: TypeAlias = NDArray[Any]
"""An array of any dtype."""

Floats: TypeAlias = NDArray[np.floating[Any]]
"""float32 or float64."""

Doubles: TypeAlias = NDArray[np.float64]
Int32s: TypeAlias = NDArray[np.int32]
Int64s: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]


class _ArrowStream(Protocol):
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class _Interchange(Protocol):
    def __dataframe__(self, nan_as_null: bool = False, allow_copy: bool = True) -> object: ...


class _OnDevice(Protocol):
    def __dlpack_device__(self) -> tuple[int, int]: ...


Rows: TypeAlias = ArrayLike | _ArrowStream | _Interchange | _OnDevice
"""Whatever holds rows: arrays and lists, frames and tables, arrays of a GPU."""


class GpuArray(Protocol):
    """What glasswood uses of CuPy's arrays."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    ndim: int
    nbytes: int
    flags: Any
    data: GpuPointer
    device: GpuDevice

    size: int

    def __len__(self) -> int: ...
    def __getitem__(self, key: Any) -> GpuArray: ...
    def __setitem__(self, key: Any, value: object) -> None: ...
    def fill(self, value: float) -> None:
        """Set all entries."""

    @property
    def T(self) -> GpuArray:  # noqa: N802
        """The transposed array."""


class GpuPointer(Protocol):
    """Where a GPU array begins."""

    ptr: int


class GpuDevice(Protocol):
    """The GPU that an array lies on."""

    id: int


class Checked(NamedTuple):
    """What comparing a forest with the live model that it was read from has found.

    Attributes
    ----------
    rows : int
        Rows on which both predicted the same, up to rounding.
    difference : float
        Largest difference of margins, probabilities or predictions, in their units.
    unchecked : tuple of str
        What was not compared, and why.
    """

    rows: int
    difference: float
    unchecked: tuple[str, ...] = ()


class Choice(NamedTuple):
    """How to evaluate batches of about `n_rows` rows.

    Attributes
    ----------
    n_rows : int
        Size of the batches that it was measured on; 0 where nothing was measured.
    device : {"cpu", "cuda"}
    algorithm : {"serial", "by_sample", "by_node", "windowed"}
    setting : int
        The algorithm's one parameter: reductions per pass (by_node), levels of a window (windowed). 0 is its default.
    seconds : float
        Measured median of a batch; NaN where nothing was measured.
    """

    n_rows: int
    device: str
    algorithm: str
    setting: int = 0
    seconds: float = float("nan")
