"""The public Explainer."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from silva.device import DeviceError, array_gpu, count_rows, gpus_worthwhile, import_cupy, parse_device
from silva.explain.covers import refuse_negative_covers
from silva.explain.cpu import PLANS, Runner
from silva.explain.explanation import make_explanation
from silva.explain.tables import TABLE_BYTES, TableRunner
from silva.inputs import as_rows, name_by_position
from silva.loading import load
from silva.parallel import n_threads
from silva.typing import ExplainAlgorithm, ExplainOutput

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import DTypeLike

    from silva.forest import Forest
    from silva.typing import Array, Doubles, FloatType, Int32s, Rows

ALGORITHMS: tuple[str, ...] = get_args(ExplainAlgorithm)
OUTPUTS: tuple[str, ...] = get_args(ExplainOutput)
ROWS_TOGETHER, WORTHWHILE = 16, 4e4
"""Rows that a thread explains together, and nodes that it visits for its share of the rows from which a GPU is the
faster: 10 ns a node on a core beside 0.4 ms of a call from host to host (benchmarks/results/cuda_h200.md)."""


class Explainer:
    """Exact SHAP values and interaction values of a tree ensemble.

    Parameters
    ----------
    model : object or path
        Anything that `silva.load` takes, or a Forest.
    background : None
        Background rows (interventional values) are not supported yet. None: the path-dependent values, which weight
        the two sides of a split by the training rows that took them.
    algorithm : {"auto", "tables", "quadrature", "paths"}
        "quadrature" walks every tree for every row, with as many Gauss-Legendre points of the game's multilinear
        extension as make it exact. "tables" keeps the finished values of every state that a row can be in at small
        subtrees, so that a row costs about as much as its prediction (values on the CPU; interactions and trees whose
        tables exceed `table_bytes` are walked). "paths" is GPUTreeShap's dynamic programme over single paths (GPU
        only, at most 31 distinct features on a path). "auto": tables for the trees where they pay, else the walk;
        decided by the forest, never by the rows.
    output : {"margin"}
        What is explained: the margin, before any link.
    device : {"auto", "cpu", "cuda", "cuda:1", "cuda:all"}
        Where to run: "auto" where the rows live, and for rows on the host where it is faster; "cuda:all" splits rows
        over the GPUs of this machine.
    dtype : {"float32", "float64"}
        Type of the arithmetic within a tree and of the results; sums over trees are float64 in both.
    n_jobs : int, optional
        Threads; None or -1 for all.
    table_bytes : int
        Most memory for tables; 0 for none. They are built at first use, or by `prepare`.

    Attributes
    ----------
    forest : Forest
    algorithm_ : str
        What "auto" takes for values on the CPU: "tables" if any tree has them, else "quadrature".
    expected_value : float, or ndarray of shape (k,)
        Margin without any feature known; k for k > 1 outputs.

    Raises
    ------
    ValueError
        If an argument has no such choice, the leaf values exceed what dtype="float32" holds, or the cover of a split
        or of its children is negative or not finite.
    NotImplementedError
        For choices that are not supported yet.

    Notes
    -----
    Error against exact arithmetic, relative to the sum over trees of (largest - smallest leaf value): below 1e-12 in
    float64, 1e-6 in float32 (1e-5 beyond depth 32), at any depth. A row costs O(nodes × K), K half the largest number
    of distinct features on a path. The bits do not depend on n_jobs or on how rows are split into calls.

    Leaves may hold linear models (model trees; values on the CPU only, no interactions). A feature that a coalition
    does not know is weighted by cover at the splits, as ever, and counts as its mean over the leaf's training rows in
    the leaf's model; where the leaf clips what its model returns, the terms shrink in proportion. Values and
    `expected_value` add up to the margin all the same.

    References
    ----------
    Lundberg et al., "From local explanations to global understanding with explainable AI for trees", Nature Machine
    Intelligence 2 (2020), https://doi.org/10.1038/s42256-019-0138-9; Mitchell, Frank, Holmes, "GPUTreeShap: massively
    parallel exact calculation of SHAP scores for tree ensembles", PeerJ Computer Science 8:e880 (2022),
    https://doi.org/10.7717/peerj-cs.880; Owen, "Multilinear extensions of games", Management Science 18 (1972),
    https://doi.org/10.1287/mnsc.18.5.64.

    Examples
    --------
    >>> explainer = silva.Explainer("model.json")  # doctest: +SKIP
    >>> shap.plots.beeswarm(explainer(X))  # doctest: +SKIP
    """

    def __init__(
        self,
        model: Any,
        background: Any = None,
        algorithm: ExplainAlgorithm = "auto",
        output: ExplainOutput = "margin",
        device: str = "auto",
        dtype: FloatType = "float32",
        n_jobs: int | None = None,
        table_bytes: int = TABLE_BYTES,
    ) -> None:
        _check_choices(background, algorithm, output, dtype)
        parse_device(device)
        n_threads(n_jobs)
        _check_table_bytes(table_bytes, algorithm)
        self.forest = load(model)
        refuse_negative_covers(self.forest)
        if algorithm in {"paths", "tables"}:
            _refuse_linear_leaves(self.forest, f"algorithm={algorithm!r}", "use algorithm='quadrature'")
        self.algorithm = algorithm
        self.output = output
        self.device = device
        self.dtype = str(np.dtype(dtype))
        _check_range(self.forest, self.dtype)
        self.n_jobs = n_jobs
        self.table_bytes = int(table_bytes)
        self._runner = Runner(self.forest, self.dtype)

    def __getstate__(self) -> dict[str, object]:
        made = {"_runner", "_on_cuda", "_on_tables"}
        return {name: value for name, value in self.__dict__.items() if name not in made}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._runner = Runner(self.forest, self.dtype)

    def __repr__(self) -> str:
        runner = self.__dict__.get("_on_tables")
        tables = f", {runner.n_bytes / 1e6:.1f} MB of tables" if runner and runner.n_bytes else ""
        return f"Explainer({self.forest!r}, algorithm={self.algorithm!r}, dtype={self.dtype!r}{tables})"

    @property
    def algorithm_(self) -> str:
        """What "auto" takes for values on the CPU: "tables" if any tree has them, else "quadrature"."""
        if self.algorithm == "paths":
            return "paths"
        runner = self._on_tables
        return "tables" if runner and runner.has_tables(self.n_jobs) else "quadrature"

    def prepare(self) -> Explainer:
        """Build the tables now instead of at the first use.

        Returns
        -------
        Explainer
            Itself.
        """
        if self._on_tables:
            self._on_tables.prepare(self.n_jobs)
        return self

    @property
    def whole_tables(self) -> Any:
        """The compiled tables if they are built and no tree is walked, else None."""
        return self._on_tables.whole_tables if self._on_tables else None

    @property
    def expected_value(self) -> float | Doubles:
        """Margin without any feature known: a float, or (k,) for k > 1 outputs."""
        expected = self._runner.expected_value
        return float(expected[0]) if len(expected) == 1 else expected

    def __call__(self, X: Rows, by_position: bool = False) -> Any:
        """Explain rows for shap's plots.

        Parameters
        ----------
        X : array-like or frame of shape (n, F)
        by_position : bool
            As in `shap_values`.

        Returns
        -------
        shap.Explanation
            With values (n, F) or (n, F, k), base_values (n,) or (n, k), the rows and the names of the features; a
            dataclass of the same fields where shap is not installed.
        """
        if by_position:
            X = name_by_position(X, self.forest)
        if self._gpus(X):
            values = self.shap_values(X)
            rows, values = as_rows(as_host(X), self.forest), as_host(values)
            return make_explanation(values, self._runner.expected_value, rows, X, self.forest)
        rows = as_rows(X, self.forest)
        return make_explanation(self.values_on_cpu(rows, None), self._runner.expected_value, rows, X, self.forest)

    def shap_values(self, X: Rows, out: Array | None = None, by_position: bool = False) -> Array:
        """Compute SHAP values.

        Parameters
        ----------
        X : array-like or frame of shape (n, F)
        out : ndarray, optional
            Where to write, a memory map for results larger than memory; of the result's shape and dtype, any strides.
        by_position : bool
            Take the columns of a frame in their order, whatever their names.

        Returns
        -------
        ndarray of shape (n, F), or (n, F, k) for k > 1 outputs, of `dtype`
            In the unit of the margin; a row's values and `expected_value` add up to its margin.

        Raises
        ------
        ValueError
            If X does not fit the forest, or out not the result.
        NotImplementedError
            For linear leaves on a GPU.
        DeviceError
            If a GPU is asked for and cannot be used.
        """
        if by_position:
            X = name_by_position(X, self.forest)
        if gpus := self._gpus(X):
            values: Array = self._on_cuda.shap_values(X, gpus, out)
            return values
        return self.values_on_cpu(as_rows(X, self.forest), out)

    def row(self, top: int | None = None) -> Callable[[Array], Any]:
        """Prepare explanations of single rows with little latency, for reason codes in serving.

        Everything that `shap_values` checks and looks up for a call is done here, once.

        Parameters
        ----------
        top : int, optional
            Number of features wanted, those of the largest magnitudes; None for the values of all features.

        Returns
        -------
        callable
            Takes one row, a C-contiguous float32 or float64 array of shape (F,) or (1, F) in the order of the forest's
            features, categories as in an array for `shap_values`, missing values as NaN. Returns what ``shap_values``
            returns for it, to the bit and without the axis of rows: an ndarray (F,), or (F, k) for k > 1 outputs; with
            `top` a pair of int32 features (top,) and their values (top,), by falling magnitude, or (top, k) both. It
            may be called by several threads at once, and pickles.

        Raises
        ------
        ValueError
            If `top` is below 1; from the callable, if the row has another length.
        TypeError
            From the callable, if the row is no contiguous float32 or float64 array.

        Notes
        -----
        Runs on the CPU. Microseconds where every tree has tables and no categories are matched by value; other
        forests go through `shap_values`.
        """
        from silva.explain.row import make_row

        return make_row(self, top)

    def shap_interaction_values(
        self,
        X: Rows,
        features: Sequence[int | str] | None = None,
        out: Array | None = None,
        by_position: bool = False,
    ) -> Array:
        """Compute SHAP interaction values.

        Parameters
        ----------
        X : array-like or frame of shape (n, F)
        features : sequence of int or str, optional
            Indices or names of the m features whose interactions with all others are wanted; default all of them.
        out : ndarray, optional
            Where to write, as in `shap_values`.
        by_position : bool
            As in `shap_values`.

        Returns
        -------
        ndarray of shape (n, m, F), or (n, m, F, k) for k > 1 outputs, of `dtype`
            Entry (i, j) is half of the interaction of features i and j, entry (i, i) the main effect: row i adds up
            to the SHAP value of feature i.

        Raises
        ------
        ValueError
            If X does not fit the forest, out not the result, or a feature is unknown or named twice.
        NotImplementedError
            For linear leaves.
        DeviceError
            If a GPU is asked for and cannot be used.

        Notes
        -----
        Costs O(nodes × features on a path × K) a row; memory beyond the result m × F float64 a lane and thread.
        """
        _refuse_linear_leaves(self.forest, "interactions", "use shap_values, or grow with leaf_model='constant'")
        places = _places(features, self.forest.n_features, self.forest.feature_names)
        if by_position:
            X = name_by_position(X, self.forest)
        if gpus := self._gpus(X, self.forest.n_features):
            asked = None if features is None else places
            interactions: Array = self._on_cuda.shap_interaction_values(X, gpus, asked, out)
            return interactions
        rows = as_rows(X, self.forest)
        shape = (len(rows), int(places.max(initial=-1)) + 1, self.forest.n_features)
        result = self._result(shape, rows, out)
        self._runner.interactions(rows, places, result, self.n_jobs)
        return result

    def _gpus(self, X: Rows, results: int = 1) -> tuple[int, ...]:
        """GPUs that take these rows; none if the CPU does."""
        if self.forest.has_linear_leaves:
            if parse_device(self.device)[0] not in {"auto", "cpu"} or array_gpu(X) is not None:
                _refuse_linear_leaves(self.forest, "explanations on GPUs", "pass host rows and device='cpu'")
            return ()
        n_blocks = -(-count_rows(X) // (ROWS_TOGETHER * n_threads(self.n_jobs)))
        work = n_blocks * self.forest.n_nodes * results
        if self.algorithm == "tables":
            return self._no_gpu_of_tables(X)
        if self.algorithm == "paths":
            return self._gpus_of_paths(X, work)
        return gpus_worthwhile(self.device, X, work, WORTHWHILE)

    def _no_gpu_of_tables(self, X: Rows) -> tuple[int, ...]:
        if parse_device(self.device)[0] not in {"auto", "cpu"} or array_gpu(X) is not None:
            raise NotImplementedError(
                "algorithm='tables' is not supported yet on GPUs; pass host rows and device='cpu', or algorithm='auto'"
            )
        return ()

    def _gpus_of_paths(self, X: Rows, work: int) -> tuple[int, ...]:
        only = "algorithm='paths' runs on NVIDIA GPUs only"
        try:
            gpus = gpus_worthwhile("cuda" if self.device == "auto" else self.device, X, work, WORTHWHILE)
        except DeviceError as error:
            if self.device != "auto":
                raise
            raise DeviceError(f"{only}; pass algorithm='quadrature' where there is none ({error})") from error
        if not gpus:
            raise DeviceError(f"{only}; pass device='cuda' or algorithm='quadrature'")
        return gpus

    @functools.cached_property
    def _on_cuda(self) -> Any:
        from silva.explain.cuda.explainer import CudaExplainer

        return CudaExplainer(self.forest, self.dtype, "paths" if self.algorithm == "paths" else "quadrature")

    @functools.cached_property
    def _on_tables(self) -> TableRunner | None:
        """Runner of tables, None where nothing can have them."""
        if self.algorithm not in {"auto", "tables"} or self.table_bytes == 0 or self.forest.has_linear_leaves:
            return None
        return TableRunner(self.forest, self.dtype, self.table_bytes, self.algorithm == "tables", self._runner)

    def values_on_cpu(self, rows: Array, out: Array | None = None) -> Array:
        """Values of rows that `as_rows` made."""
        result = self._result((len(rows), self.forest.n_features), rows, out)
        (self._on_tables or self._runner).values(rows, result, self.n_jobs)
        return result

    def _result(self, shape: tuple[int, ...], rows: Array, out: Array | None) -> Array:
        """Check the caller's array, or make one."""
        if self.forest.n_outputs > 1:
            shape = (*shape, self.forest.n_outputs)
        if out is None:
            return np.empty(shape, self.dtype)
        if not isinstance(out, np.ndarray):
            raise TypeError(f"out is a {type(out).__name__}, expected a NumPy array")
        if out.shape != shape or out.dtype != self.dtype:
            raise ValueError(f"out is {out.dtype} of shape {out.shape}, expected {self.dtype} of shape {shape}")
        if not (out.flags.writeable and out.flags.aligned and out.dtype.isnative):
            raise ValueError("out must be writable, aligned and of native byte order")
        if _overlaps_itself(out):
            raise ValueError(
                f"out has strides {out.strides} over the shape {out.shape}: several entries share memory; pass an "
                "array with room for each"
            )
        if np.may_share_memory(out, rows):
            raise ValueError(
                "out shares memory with X, whose rows are read while results are written; use another array"
            )
        return out


def _overlaps_itself(array: Array) -> bool:
    """Whether a step along some axis lands within what the axes of smaller strides span, as views made by hand may."""
    span = array.itemsize
    for stride, length in sorted((abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n != 1):
        if stride < span and array.size:
            return True
        span += stride * (length - 1)
    return False


def as_host(X: Rows) -> Any:
    """Copy GPU arrays to the host; anything else is returned as it is."""
    return X if array_gpu(X) is None else import_cupy().asnumpy(import_cupy().asarray(X))


def _refuse_linear_leaves(forest: Forest, what: str, instead: str) -> None:
    if forest.has_linear_leaves:
        raise NotImplementedError(f"linear leaves are not supported yet in {what}; {instead}")


def _check_choices(background: Any, algorithm: str, output: str, dtype: DTypeLike) -> None:
    if algorithm not in ALGORITHMS:
        raise ValueError(f"algorithm is {algorithm!r}, expected 'auto', 'tables', 'quadrature' or 'paths'")
    if output not in OUTPUTS:
        raise ValueError(f"output is {output!r}, expected 'margin' or 'probability'")
    if str(dtype) not in PLANS and dtype not in (np.float32, np.float64):
        raise ValueError(f"dtype is {dtype!r}, expected 'float32' or 'float64'")
    if background is not None:
        raise NotImplementedError("background rows are not supported yet; leave background=None")
    if output == "probability":
        raise NotImplementedError("output='probability' needs background rows and is not supported yet; use 'margin'")


def _check_table_bytes(table_bytes: Any, algorithm: str) -> None:
    if isinstance(table_bytes, bool) or not hasattr(table_bytes, "__index__"):
        raise TypeError(f"table_bytes is {table_bytes!r}, expected a number of bytes")
    if table_bytes < 0 or table_bytes >= 2**63:
        raise ValueError(f"table_bytes is {table_bytes}, expected a number of bytes, 0 for no tables")
    if table_bytes == 0 and algorithm == "tables":
        raise ValueError("table_bytes is 0, algorithm='tables' needs memory; pass algorithm='quadrature' for no tables")


def _check_range(forest: Forest, dtype: str) -> None:
    """Refuse leaf values whose difference is infinite in float32."""
    with np.errstate(over="ignore"):
        largest = np.abs(forest.leaf_value).max(initial=0.0) * np.abs(forest.tree_weight).max(initial=0.0)
    if dtype == "float32" and largest > np.finfo(np.float32).max / 2:
        raise ValueError(f"leaf values reach {largest:.1e}, beyond what float32 holds; pass dtype='float64'")


def _places(features: Sequence[int | str] | None, n_features: int, names: tuple[str, ...] | None) -> Int32s:
    """Each feature's place among those asked for, or -1."""
    if features is None:
        return np.arange(n_features, dtype=np.int32)
    if isinstance(features, str) or not hasattr(features, "__iter__"):
        raise TypeError(f"features is {features!r}, expected a list of indices or names")
    places = np.full(n_features, -1, np.int32)
    for place, feature in enumerate(features):
        at = _index(feature, n_features, names)
        if places[at] >= 0:
            raise ValueError(f"feature {feature!r} is named twice in features; name it once")
        places[at] = place
    return places


def _index(feature: int | str, n_features: int, names: tuple[str, ...] | None) -> int:
    if isinstance(feature, str):
        if names is None or feature not in names:
            known = "the forest has no feature names" if names is None else f"expected one of {', '.join(names)}"
            raise ValueError(f"no feature is called {feature!r}; {known}")
        return names.index(feature)
    if not hasattr(feature, "__index__") or isinstance(feature, bool):
        raise TypeError(f"features holds {feature!r}, expected indices or names")
    if not 0 <= feature < n_features:
        raise ValueError(f"features holds {feature}, expected 0 to {n_features - 1}")
    return int(feature)
