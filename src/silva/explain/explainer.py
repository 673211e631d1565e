"""The public Explainer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from silva.device import find_gpus, on_host, parse_device
from silva.explain.additivity import check_sums
from silva.explain.background import make_background
from silva.explain.calling import CalledExplainer
from silva.explain.checks import (
    check_background,
    check_choices,
    check_groups,
    check_range,
    check_table_bytes,
    checked_names,
    refuse_linear_leaves,
    refuse_negative_covers,
    refuse_unknown_means,
)
from silva.explain.cpu import CpuExplainer
from silva.explain.interactions import InteractionExplainer
from silva.explain.mapper import MappedExplainer
from silva.explain.placement import Placement
from silva.explain.players import by_column, make_players
from silva.explain.responses import ResponseExplainer, labels_of
from silva.explain.row import make_row
from silva.explain.shap_arguments import (
    checked_outputs,
    own_algorithm,
    refuse_call_arguments,
    taking_one_row,
    translated,
)
from silva.explain.sparse import compact, sparse_values, values_of_sparse
from silva.explain.stored import holds_explainer
from silva.explain.tables import TABLE_BYTES
from silva.facts import feature_names as shown_names
from silva.inputs import arranged, as_rows, refuse_transform
from silva.inputs.sparse import is_sparse
from silva.loading import load
from silva.parallel import cached_property, n_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import ArrayLike

    from silva.typing import Array, Doubles, ExplainAlgorithm, ExplainOutput, FloatType, Rows


class Explainer(InteractionExplainer, CalledExplainer, MappedExplainer):
    """Exact SHAP values and interaction values of a tree ensemble.

    Parameters
    ----------
    model : object or path
        Anything that `silva.load` takes, or a Forest.
    background : array-like or frame of shape (m, F), optional
        Rows whose values stand for features that are not known (interventional values), any number of them: a row's
        cost does not depend on it. None: path-dependent values, which weight the two sides of a split by the training
        rows that took them. On GPUs if all trees have tables there.
    algorithm : {"auto", "tables", "quadrature", "paths"}
        "tables" keeps finished values of small subtrees, so that a row costs about as much as its prediction.
        "quadrature" walks every tree for every row. "auto": tables where they pay, else the walk; decided by the forest
        and its background, never by the rows. "paths": GPUTreeShap's method, an independent check on GPUs, at most 31
        distinct features on a path.
    output : {"margin", "probability", "log_loss"}
        What is explained: the margin, before any link. With a background and a logistic link, also the probability of
        the second class, or the loss of each row's label, as in shap.
    device : {"auto", "cpu", "cuda", "cuda:1", "cuda:all"}
        "auto": where the rows live, and for rows on the host where it is faster; "cuda:all" splits rows over the GPUs
        of this machine.
    dtype : {"float32", "float64"}
        Type of the arithmetic within a tree and of the results; sums over trees are float64 in both.
    n_jobs : int, optional
        Threads; None or -1 for all.
    table_bytes : int, optional
        Most memory for tables of values, and as much again for those of interactions; 0 for none. Those beyond it are
        built anew for each call where many rows gain by it. Default: 256 MB on cores, 512 MB on each GPU.
    background_weight : array-like of shape (m,), optional
        Weights of the background rows, at least 0; default 1 each.
    groups : dict of str to sequence of int or str, or "source", optional
        Features that are known together or not at all, by the name of their group, which has one value. Results have
        the groups first, then the features that are in none. On GPUs if all trees have tables there. "source": of a
        pipeline, what its steps made of each column; of CatBoost, each column's target statistics; else each feature.
    feature_names : sequence of str, optional
        What explanations call the features; default the model's names.
    **shap_arguments
        Names of shap: `data` or `masker` for background, `model_output` ("raw" is the margin), `feature_perturbation`,
        `output_names`, and what changes nothing: ``algorithm="tree"``, `seed`, `approximate`, `link`, `linearize_link`;
        others are refused by name.

    Attributes
    ----------
    forest : Forest
    players : tuple of str
        What the axes of the results are: the names of the features, or of the groups and the other features.
    algorithm_ : str
        What values take where `device` says, "auto" on the CPU: "tables" if any tree has them, else "quadrature", or
        "patterns" with a background.
    expected_value : float, or ndarray of shape (k,)
        What is explained with no feature known, with a background its mean; k for k > 1 outputs. Of the log-loss (2,),
        for labels 0 and 1.

    Raises
    ------
    ValueError
        If an argument has no such choice, background rows or their weights do not fit, the leaf values exceed what
        dtype="float32" holds, or, without a background, a split's covers are negative or not finite.
    NotImplementedError
        For choices that are not supported yet.

    Notes
    -----
    Error relative to the sum over trees of (largest - smallest leaf value): below 1e-12 in float64, 1e-6 in float32
    (1e-5 beyond depth 32). The bits do not depend on n_jobs or on how rows are split into calls.

    Leaves may hold linear models: a feature that is not known counts as its mean over the leaf's training rows, with a
    background as the background row's value. Then they have values alone, on the CPU; groups are on the CPU, too.

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
        table_bytes: int | None = None,
        background_weight: ArrayLike | None = None,
        groups: Mapping[str, Sequence[int | str]] | Literal["source"] | None = None,
        feature_names: Sequence[str] | None = None,
        **shap_arguments: Any,
    ) -> None:
        algorithm = own_algorithm(algorithm)
        check_choices(algorithm, output, dtype)
        parse_device(device)
        n_threads(n_jobs)
        check_table_bytes(table_bytes, algorithm)
        self.forest = load(model)
        if holds_explainer(model):
            raise ValueError(
                f"{model} holds an explainer, with its background and settings; silva.Explainer.load reads it, "
                "silva.load its forest alone"
            )
        background, output = translated(background, output, shap_arguments, self.forest)
        check_background(background_weight, background is not None, algorithm, output)
        if background is None:
            refuse_negative_covers(self.forest)
            refuse_unknown_means(self.forest)
        if algorithm in {"paths", "tables"}:
            refuse_linear_leaves(self.forest, f"algorithm={algorithm!r}", "use algorithm='quadrature'")
        self._players = make_players(groups, self.forest)
        self._names = checked_names(feature_names, self._players.n)
        self._output_names = checked_outputs(shap_arguments.get("output_names"), self.forest.n_outputs)
        check_groups(self._players.groups, algorithm)
        self.algorithm = algorithm
        self.output = output
        self.device = device
        self.dtype = str(np.dtype(dtype))
        check_range(self.forest, self.dtype)
        self.n_jobs = n_jobs
        self.table_bytes = None if table_bytes is None else int(table_bytes)
        self._background = (
            None if background is None else make_background(background, background_weight, self.forest, n_jobs)
        )
        self._on_cpu = self._lay_out()

    def __getstate__(self) -> dict[str, object]:
        made = {"_on_cpu", "_on_cuda", "_of_used"}
        return {name: value for name, value in self.__dict__.items() if name not in made}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._on_cpu = self._lay_out()

    def _lay_out(self) -> CpuExplainer | ResponseExplainer:
        n_bytes = TABLE_BYTES if self.table_bytes is None else self.table_bytes
        settings = self.dtype, self.algorithm, n_bytes, self.n_jobs
        if self.output == "margin" or self._background is None:
            return CpuExplainer(self.forest, *settings, self._background, self._players)
        return ResponseExplainer(self.forest, self.output, *settings, self._background, self._players)

    def by_column(self, values: Array) -> tuple[Array, tuple[str, ...]]:
        """Divide values of players that stand for several columns equally among these, as CatBoost's ShapValues do.

        Parameters
        ----------
        values : ndarray of shape (n, P), or (n, P, k)
            Of an explainer with groups="source".

        Returns
        -------
        values : ndarray of shape (n, C), or (n, C, k)
        columns : tuple of str
            Names of the C columns.
        """
        return by_column(values, self._players)

    @property
    def groups(self) -> dict[str, list[int]] | None:
        """Features of each group by index, None without groups."""
        return self._players.groups or None

    @property
    def players(self) -> tuple[str, ...]:
        """Names of the groups and of the features that are in none, those of the features without groups."""
        return self._players.names or shown_names(self.forest)

    @property
    def algorithm_(self) -> str:
        """What values take where `device` says, "auto" on the CPU: "tables", "quadrature", "patterns" or "paths"."""
        if self.algorithm == "paths":
            return "paths"
        on_device = self._on_cuda if self._is_for_gpus() else self._on_cpu
        if on_device.has_tables:
            return "tables"
        return "patterns" if self._background else "quadrature"

    def prepare(self) -> Explainer:
        """Build the tables where `device` says, "auto" on the CPU, now instead of at the first use.

        Returns
        -------
        Explainer
            Itself.
        """
        if self._is_for_gpus():
            self._on_cuda.prepare(find_gpus(self.device))
        else:
            self._on_cpu.prepare()
        return self

    def _is_for_gpus(self) -> bool:
        return parse_device(self.device)[0] in {"cuda", "all"}

    @property
    def expected_value(self) -> float | Doubles:
        """Margin without any feature known: a float, or (k,) for k > 1 outputs."""
        expected = self._on_cpu.expected_value
        return float(expected[0]) if len(expected) == 1 else expected

    @taking_one_row
    def shap_values(
        self,
        X: Rows,
        y: ArrayLike | None = None,
        *,
        out: Array | None = None,
        by_position: bool = False,
        check_additivity: bool = False,
        sparse_output: bool = False,
        **shap_arguments: Any,
    ) -> Any:
        """Compute SHAP values.

        Parameters
        ----------
        X : array-like, frame or sparse rows (SciPy, CuPy) of shape (n, F), or one row (F,)
            Of sparse rows only the columns that the forest uses are made dense, a chunk of rows at a time. An entry
            that is not stored is missing for XGBoost, and 0 for other libraries. An array or a pandas.Series of one row
            has a result without the axis of rows.
        y : array-like of shape (n,), optional
            Labels, for output="log_loss" alone: classes of the model, or 0 and 1 where it knows none or texts.
        out : ndarray, optional
            Where to write, a memory map for results larger than memory; of the result's shape and dtype, any strides.
        by_position : bool
            Take the columns of a frame in their order, whatever their names.
        check_additivity : bool
            Predict the rows too, and check that each row's values and `expected_value` add up to its margin: within
            the error of a value (Notes of `Explainer`) for each feature of each tree.
        sparse_output : bool
            Return a CSR array (n, F) of the values that are not 0, (1, F) of one row; k > 1 outputs: a list of k.
        **shap_arguments
            `approximate` and `tree_limit` as far as they change nothing.

        Returns
        -------
        ndarray of shape (n, F), or (n, F, k) for k > 1 outputs, of `dtype`; F is the number of `players`
            In the unit of the output; a row's values and `expected_value` add up to its margin, its probability, or its
            loss (with the expected value of its label).

        Raises
        ------
        ValueError
            If X does not fit the forest, out not the result, or y not the rows.
        ArithmeticError
            If `check_additivity` finds a row whose values do not add up; `out` then holds them.
        NotImplementedError
            For linear leaves on a GPU against a background or by groups.
        DeviceError
            If a GPU is asked for and cannot be used.
        """
        if shap_arguments:
            refuse_call_arguments(shap_arguments, self.forest.n_trees)
        if sparse_output and out is not None:
            raise ValueError("out takes dense values; leave out or sparse_output")
        if out is None and not (check_additivity or sparse_output) and (kept := self._again(X, "values")) is not None:
            return kept
        X = arranged(X, self.forest, by_position, keeps_sparse=not self.groups)
        if is_sparse(X):
            return values_of_sparse(self, X, out, sparse_output, y, check_additivity=check_additivity)
        gpus = self._gpus(X)
        values = self._values(X if gpus else as_rows(X, self.forest), gpus, out, check_additivity, y)
        return sparse_values(on_host(values), self.forest.n_outputs) if sparse_output else values

    @cached_property
    def _of_used(self) -> Any:
        return compact(self)

    def _values(
        self, rows: Any, gpus: tuple[int, ...], out: Array | None, check: bool, y: ArrayLike | None = None
    ) -> Array:
        """Values on these GPUs, or of rows that `as_rows` made on the CPU."""
        if check and self.output != "margin":
            raise ValueError(f"check_additivity compares margins; leave it off for output={self.output!r}")
        labels = labels_of(self.output, y)
        if gpus:
            values: Array = self._on_cuda.shap_values(rows, gpus, out, self.device, **labels)
        else:
            values = self._on_cpu.values(rows, out, **labels)
        if check:
            check_sums(self.forest, self.dtype, self._on_cpu.expected_value, rows, gpus, values)
        return values

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
            features, categories as in an array for `shap_values` (of objects where CatBoost's or scikit-learn's are
            texts), missing values as NaN. Returns what ``shap_values`` returns for it, to the bit and without the axis
            of rows: an ndarray (F,), or (F, k) for k > 1 outputs; with `top` a pair of int32 features (top,) and their
            values (top,), by falling magnitude, or (top, k) both. Threads may share it, and it pickles.

        Raises
        ------
        ValueError
            If `top` is below 1; from the callable, if the row has another length.
        TypeError
            From the callable, if the row is no contiguous float32 or float64 array.
        NotImplementedError
            For pipelines, target statistics (columns are not the trees' features) and output="log_loss".

        Notes
        -----
        Runs on the CPU: microseconds where every tree has tables and no categories go by value, else as `shap_values`.
        """
        if self.output == "log_loss":
            raise NotImplementedError("single rows have no labels for output='log_loss'; use shap_values(X, y=y)")
        refuse_transform(self.forest, "row", "shap_values")
        return make_row(self._on_cpu, top)

    def _again(self, X: Rows, output: str) -> Array | None:
        """Answer a call like an earlier one on GPU rows: checks take as long as a GPU needs for many rows."""
        on_cuda = self.__dict__.get("_on_cuda")
        return None if on_cuda is None else cast("Array | None", on_cuda.again(X, output, self.algorithm, self.device))

    def _gpus(self, X: Rows, of_pairs: bool = False) -> tuple[int, ...]:
        """GPUs that take these rows; none if the CPU does."""
        has = self._background is not None, self.groups is not None
        arguments = self.forest, self.algorithm, self.output, self.device, self.n_jobs, *has
        return Placement(*arguments).gpus(X, of_pairs, lambda: self._on_cuda.serves_by_tables(of_pairs))

    @cached_property
    def _on_cuda(self) -> Any:
        from silva.explain.cuda.explainer import CudaExplainer

        parts = self._on_cpu.parts if isinstance(self._on_cpu, ResponseExplainer) else None
        return CudaExplainer(
            self.forest, self.dtype, self.algorithm, self.table_bytes, self._background, parts, self._players
        )
