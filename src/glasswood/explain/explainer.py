"""The public Explainer."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Self, cast

import numpy as np
from numpy.typing import ArrayLike

from glasswood.base.escapes import escaped_errors, quoted
from glasswood.base.typing import (
    Array,
    Doubles,
    ExplainAlgorithm,
    ExplainOutput,
    ExplainRule,
    FloatType,
    Language,
    Rows,
)
from glasswood.explain.calls import ExplainerCalls
from glasswood.explain.game import checked_settings
from glasswood.explain.mapper import ExplanationMapper
from glasswood.explain.players import by_column
from glasswood.explain.results.importance import importance_columns
from glasswood.explain.results.sentences import sentences_of
from glasswood.explain.results.summary import Summary, scale_of, summarised
from glasswood.explain.setup import set_up
from glasswood.explain.shap_arguments import own_algorithm
from glasswood.explain.stored import attachment_of, load_explainer
from glasswood.forest import Forest
from glasswood.inputs.frames import table_maker
from glasswood.model.facts import as_html, forest_facts, output_names
from glasswood.model.facts import feature_names as shown_names
from glasswood.model.storage import naming, save_forest


class Explainer(ExplainerCalls):
    """Exact SHAP values and interaction values of a tree ensemble.

    For outputs other than the margin, such as ``output="probability"``, they are Shapley values of that output
    (``rule="exact"``). `TreeExplainer` has shap's rule there, "rescale", which gives other values.

    Parameters
    ----------
    model : object or path
        A Forest, or any model that `glasswood.load` reads.
    background : array-like or frame of shape (m, F), optional
        Rows whose values replace unknown features (interventional values), or a result of `shap.kmeans`. Their number
        does not affect the cost of a row, except for exact values of responses (`rule`). None: path-dependent values,
        which weight the two sides of a split by the training rows that took each side. On GPUs, a background needs
        tables. With "cuda", the CPU explains what has none, and glasswood refuses a forest without any.
    algorithm : {"auto", "tables", "quadrature", "paths"}
        "tables" keeps finished values of small subtrees, so that a row costs about as much as its prediction.
        "quadrature" walks every tree for every row. "auto" uses tables where they pay off, otherwise the walk; this
        depends on the forest and its background, never on the rows. "paths" is GPUTreeShap's method, an independent
        check on GPUs for at most 31 distinct features on a path.
    output : {"margin", "probability", "log_loss", "response", "decision"} or callable
        What to explain. "margin": the sum of the trees, before any link. The others require a background.
        "probability": of the second class, or of each of k classes. "log_loss": the loss of each row's label.
        "response": the margin after the link. "decision": 1 if the model decides for the class, otherwise 0. A
        callable: a function of margins (N, k) that returns (N,) or (N, r) numbers.
    device : {"auto", "cpu", "cuda", "cuda:1", "cuda:all"}
        Where to run. "auto" is the device of `glasswood.set_config`, which describes them, when the explainer is made.
    dtype : {"float32", "float64"}
        Type of the arithmetic within a tree and of the results; sums over trees are float64 in both.
    n_jobs : int, optional
        Number of threads; -1 for all. None is that of `glasswood.set_config` in each call.
    table_bytes : int, optional
        Largest memory for tables of values, and as much again for tables of interactions; 0 for no tables. If tables do
        not fit, glasswood builds them again for each call if that pays off. Default: 256 MB on CPUs, 512 MB on each
        GPU, 1 GB for tables that only `row` reads.
    background_weight : array-like of shape (m,), optional
        Weights of the background rows, at least 0; default 1 each.
    groups : dict of str to sequence of int or str, or "source", optional
        Groups of features by name. The features of a group are known together or not at all, and have one value.
        Results have the groups first, then the features that are in no group. "source" groups the features that a
        pipeline's steps made from one column, or CatBoost's target statistics of one column; for other models, each
        feature is a group.
    rule : {"exact", "rescale"}
        Definition of the values of outputs other than the margin. "exact": Shapley values of the response, computed
        for all coalitions of features. The cost grows with the number of background rows, and as 2^d with the number d
        of features on which two rows differ. If d is larger than 20, values are estimates (see `shap_values`).
        "rescale": for each pair of rows, the margin's values times one number, as in shap; for two classes.
    **shap_arguments
        Arguments of shap: `data` or `masker` for background, `model_output` ("raw" is the margin),
        `feature_perturbation`, `feature_names` (of features, or of groups, in explanations) and `output_names`.
        ``algorithm="tree"``, `seed`, `approximate`, `link` and `linearize_link` are accepted if they change nothing.
        Others are refused by name.

    Attributes
    ----------
    forest : Forest
    settings : Settings
        Algorithm, output, device, dtype, n_jobs, table_bytes and names, as given.
    players : tuple of str
        Labels of the results: the names of the features, or of the groups and the other features.
    algorithm_ : str
        The algorithm that computes values on `device` (for "auto", on the CPU): "tables" if any tree has them,
        otherwise "quadrature", or "patterns" with a background.
    expected_value : float, or ndarray of shape (k,)
        The output if no feature is known; with a background, its mean. An array for k > 1 outputs. For the log-loss
        (k,), for the label of each class.

    Raises
    ------
    ValueError
        If an argument has an unknown value, background rows or their weights do not fit, leaf values exceed the range
        of dtype="float32", or, without a background, covers of a split are negative or not finite.
    NotImplementedError
        For combinations that are not supported.

    Notes
    -----
    The error relative to the sum over trees of (largest - smallest leaf value) is below 1e-12 in float64 and 1e-6 in
    float32 (1e-5 beyond depth 32). The bits do not depend on n_jobs or on how rows are split into calls. They depend
    on table_bytes, which decides which trees have tables.

    Leaves may hold linear models. An unknown feature counts as its mean over the leaf's training rows or, with a
    background, as the background row's value. With a background, such leaves have values only, on the CPU; with groups
    they are explained on the CPU.

    References
    ----------
    Lundberg et al., "From local explanations to global understanding with explainable AI for trees", Nature Machine
    Intelligence 2 (2020), https://doi.org/10.1038/s42256-019-0138-9; Mitchell, Frank, Holmes, "GPUTreeShap: massively
    parallel exact calculation of SHAP scores for tree ensembles", PeerJ Computer Science 8:e880 (2022),
    https://doi.org/10.7717/peerj-cs.880; Owen, "Multilinear extensions of games", Management Science 18 (1972),
    https://doi.org/10.1287/mnsc.18.5.64.

    Examples
    --------
    >>> explainer = glasswood.Explainer("model.json")  # doctest: +SKIP
    >>> shap.plots.beeswarm(explainer(X))  # doctest: +SKIP
    """

    def __init__(
        self,
        model: Any,
        background: Any = None,
        algorithm: ExplainAlgorithm = "auto",
        output: ExplainOutput | Callable[[Doubles], ArrayLike] = "margin",
        device: str = "auto",
        dtype: FloatType = "float32",
        n_jobs: int | None = None,
        table_bytes: int | None = None,
        background_weight: ArrayLike | None = None,
        groups: Mapping[str, Sequence[int | str]] | Literal["source"] | None = None,
        rule: ExplainRule = "exact",
        **shap_arguments: Any,
    ) -> None:
        settings = checked_settings(own_algorithm(algorithm), output, device, dtype, n_jobs, table_bytes, rule)
        of_players = groups, shap_arguments.pop("feature_names", None), shap_arguments
        super().__init__(*set_up(model, settings, background, background_weight, *of_players))

    @property
    def forest(self) -> Forest:
        """The forest that is explained."""
        return Forest(self.game.forest)

    def by_column(self, values: Array) -> tuple[Array, tuple[str, ...]]:
        """Divide the values of combined columns equally among the columns, as CatBoost's ShapValues do.

        Parameters
        ----------
        values : ndarray of shape (n, P), or (n, P, k)
            Values of an explainer with groups="source".

        Returns
        -------
        values : ndarray of shape (n, C), or (n, C, k)
        columns : tuple of str
            Names of the C columns.
        """
        return by_column(values, self.game.players)

    @property
    def groups(self) -> dict[str, list[int]] | None:
        """Features of each group by index, None without groups."""
        return self.game.players.groups or None

    @property
    def players(self) -> tuple[str, ...]:
        """Names of the groups and of the features in no group; without groups, names of the features."""
        return self.game.players.names or shown_names(self.game.forest)

    @property
    def algorithm_(self) -> str:
        """Algorithm of values on `device` ("auto": on the CPU): "tables", "quadrature", "patterns" or "paths"."""
        if self.settings.algorithm == "paths":
            return "paths"
        if self._engines.asked.has_tables:
            return "tables"
        return "patterns" if self.game.has_background else "quadrature"

    def prepare(self) -> Explainer:
        """Build the tables now, on `device` ("auto": on the CPU), instead of in the first call.

        Returns
        -------
        Explainer
            Itself.
        """
        self._engines.asked.prepare()
        return self

    def summary(
        self,
        batches: Rows | Iterable[Rows],
        *,
        pair_rows: int = 0,
    ) -> Summary:
        """Summarise the SHAP values of any number of rows without storing them.

        Parameters
        ----------
        batches : array-like or frame, or batches of them
            Rows, or an iterator of them, a `polars.LazyFrame`, a `pyarrow.dataset.Dataset`. They are explained some
            thousands at a time, in constant memory.
        pair_rows : int
            Rows of each of these parts (16,384 rows) whose interactions are computed, for `Summary.strongest_pairs`.

        Returns
        -------
        Summary
            Means, mean magnitudes, quantiles, the share of rows in which a feature is the strongest, and pairs. The sum
            of two summaries is that of the rows of both: send this method to workers, and add up what they return.

        Raises
        ------
        ValueError
            If rows do not fit the forest, or `pair_rows` is negative.
        NotImplementedError
            For output="log_loss", whose values need labels.

        Examples
        --------
        >>> parts = client.map(explainer.summary, batches)  # doctest: +SKIP
        >>> sum(client.gather(parts)).save("summary.json")  # doctest: +SKIP
        """
        if self.settings.output == "log_loss":
            raise NotImplementedError("summaries have no labels for output='log_loss'; use shap_values(X, y=y)")
        if isinstance(pair_rows, bool) or not hasattr(pair_rows, "__index__") or pair_rows < 0:
            raise ValueError(f"pair_rows is {quoted(pair_rows)}, expected a number of at least 0")
        names = output_names(self.game.forest, self.n_outputs)
        result = Summary(self.players, names, self.expected_value, scale_of(self))
        return summarised(self, result, batches, int(pair_rows))

    def importance(
        self,
        X: Rows,
        y: ArrayLike | None = None,
        *,
        standard_errors: bool = False,
    ) -> Any:
        """Global feature importance: the mean magnitude of the SHAP values over rows.

        Parameters
        ----------
        X : array-like or frame of shape (n, F)
        y : array-like of shape (n,), optional
            Labels, only for output="log_loss".
        standard_errors : bool
            Add the column background_error. It costs up to 50 calls of `shap_values`.

        Returns
        -------
        frame
            Of the library of X (pandas, polars, pyarrow); of other rows a pandas frame or, without pandas, a dict of
            columns. A line for each feature, or group, the most important first; for k > 1 outputs, a line for each
            output and feature, with the name of the output as the first column. Its columns are

            - feature;
            - mean_abs: mean magnitude of the values, in the unit of the output;
            - share: its share of the sum over the features;
            - direction: "rising" or "falling" if the values rise or fall with the feature (a rank correlation of at
              least 0.5 over 5,000 evenly spaced rows), "mixed" if neither, "categories" for a categorical feature,
              empty for a group of features, and where the feature or its values do not vary;
            - standard_error: of mean_abs, for independent rows; NaN for a single row;
            - background_error: how far mean_abs would move with another background of this size (a standard error; NaN
              for a single background row, 0 without a background).

        Raises
        ------
        ValueError, TypeError
            As for `shap_values`, and if there are no rows.

        Notes
        -----
        It takes as long as `shap_values`, in constant memory. `summary` keeps more, and you can add up summaries of
        batches.
        """
        return table_maker(X)(importance_columns(self, X, y, standard_errors))

    def sentences(
        self,
        X: Rows | Mapping[str, Any],
        *,
        units: Mapping[str, str] | None = None,
        language: Language = "en",
        top: int = 5,
        output: int | str | None = None,
        standard_errors: bool = False,
    ) -> list[str] | list[list[str]]:
        """Say in words what raised and what lowered the output: reason codes that people can read.

        Parameters
        ----------
        X : array-like or frame of shape (n, F), one row (F,), or a mapping of names to values
            A mapping is one row, as for ``row(names=True)``.
        units : mapping of str to str, optional
            Units by the name of the feature; under "prediction" that of the prediction: ``{"age": "years",
            "prediction": "€"}``.
        language : {"en", "de", "fr", "es"}
        top : int
            Number of strongest features that have a sentence of their own; the others share one.
        output : int or str, optional
            Which of k > 1 outputs, by its number or name. Default: for classifiers, the class for which the explained
            output is largest.
        standard_errors : bool
            Say for each feature how far another background would move it: "raises it by 2.9 (± 0.2) points". The
            sentences state errors of estimates in any case.

        Returns
        -------
        list of str, or list of lists of str
            The sentences of one row, or those of each row. The first names the output, and how far it is from the
            average of the training rows or of the background rows. Effects are written in the unit of the prediction,
            probabilities in points, log-odds as factors of the odds, logarithms of predictions (Poisson) in percent.
            Numbers have the same decimals, so that they add up except for rounding (factors multiply).

        Raises
        ------
        ValueError
            If `top` is below 1, the language, the output or a unit's feature is unknown, or `output` is left out for
            several outputs that are no classes.
        NotImplementedError
            For output="log_loss", whose rows need labels.

        Examples
        --------
        >>> explainer.sentences(X.iloc[0])  # doctest: +SKIP
        ['Prediction: 4.15, 2.08 above the average of the training rows (2.07).', 'MedInc = 8.325 raises it by 1.7.']
        """
        found = sentences_of(self, X, units, language, top, output, standard_errors)
        return cast("list[str] | list[list[str]]", found)

    @property
    def named_outputs(self) -> list[str]:
        """Names of the outputs that are explained: the given ones, the model's, or numbers from 0."""
        return list(self.settings.output_names or output_names(self.game.forest, self.n_outputs))

    def mapper(
        self,
        output: str = "values",
        columns: Any = (),
        inputs: Sequence[str] | None = None,
        features: Sequence[int | str] | None = None,
        path: str | os.PathLike[str] | None = None,
        *,
        units: Mapping[str, str] | None = None,
        language: Language = "en",
        top: int | None = None,
    ) -> ExplanationMapper:
        """Make a function of batches that Dask, Spark, Ray, polars and DuckDB can send to their workers.

        Parameters
        ----------
        output : {"values", "interactions", "margin", "sentences"}
            The results have the columns ``phi_<feature>`` (or ``phi_<a>__<b>``), ``expected_value`` and ``margin``; for
            "margin", only the last two. Several outputs add ``_<output>`` to each name. For "sentences", the results
            have one column of text, ``sentences``.
        columns, inputs, path
            As for `Forest.mapper`.
        features : sequence of int or str, optional
            Features or groups to explain, by index or name; default all. Values are in the model's order, interactions
            in the order of `features`.
        units, language
            As for `sentences`.
        top : int, optional
            For "values", only those of the `top` strongest features of each row, of models with one output: columns
            ``feature_1``, ``phi_1``, ``feature_2``, ... in place of ``phi_<feature>``. For "sentences", as for
            `sentences`, 5 by default.

        Returns
        -------
        Mapper
            It has the explainer's background, settings and device ("cuda" is the first GPU that a worker sees), and as
            many threads as a mapper of `Forest.mapper`.

        Raises
        ------
        ValueError
            If an argument has an unknown value, a feature is unknown, or `top` does not fit the output.
        TypeError
            If `features` is not a sequence of names or indices.
        NotImplementedError
            For output="log_loss" of the explainer, which needs labels, and for pipelines, whose columns are not the
            trees' features.
        """
        how = {"units": units, "language": language}
        return ExplanationMapper(self, output, columns, inputs, features, path, top, how)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the forest, the settings and a summary of the background to a ``.glasswood`` file.

        Parameters
        ----------
        path : path
            A file name without another library's suffix. `glasswood.load` reads only the forest from it.

        Raises
        ------
        ValueError, TypeError, OSError
            As for `Forest.save`.

        Notes
        -----
        For each background value, the file holds the interval of thresholds in which it lies, or its category, in
        about 2 bytes. Rows that agree in these are one row with the sum of their weights. From this, `load` builds the
        tables again, to the same bits. For forests with linear leaves, whose values depend on the numbers themselves,
        the file holds the background rows.
        """
        save_forest(self.game.forest, path, attachment_of(self.game, self.settings))

    @classmethod
    @escaped_errors()
    def load(cls, path: str | os.PathLike[str] | bytes) -> Self:
        """Read an explainer that `save` wrote, without the background rows.

        Parameters
        ----------
        path : path, or bytes
            The path of a file, or its content.

        Returns
        -------
        Explainer
            With the same bits in all results, on the device and the threads of `glasswood.set_config`; those of the
            explainer are not saved.

        Raises
        ------
        ValueError
            If the file holds no explainer, one of a later version of glasswood, or is truncated or corrupt.
        """
        return cls._opened(path, "auto", None)

    @classmethod
    def _opened(cls, path: str | os.PathLike[str] | bytes, device: str, n_jobs: int | None) -> Self:
        """`load`, with a device and threads of its own."""
        forest, settings, background = load_explainer(path, n_jobs)
        with naming(path, ValueError, TypeError, NotImplementedError):
            return cls(forest, background, device=device, n_jobs=n_jobs, **settings)

    def __repr__(self) -> str:
        n_bytes, settings, background = self._engines.cpu.n_bytes, self.settings, self.game.background
        tables = f", {n_bytes / 1e6:.1f} MB of tables" if n_bytes else ""
        against = f", background={background!r}" if background else ""
        output = f", output={settings.output!r}" if settings.output != "margin" else ""
        chosen = f"algorithm={settings.algorithm!r}, dtype={settings.dtype!r}"
        return f"{type(self).__name__}({self.forest!r}{against}{output}, {chosen}{tables})"

    def _repr_html_(self) -> str:
        """Forest and settings, for notebooks."""
        background, settings = self.game.background, self.settings
        answers = f"interventional, against {background!r}" if background else "path-dependent"
        own = {"values": answers, **{name: getattr(settings, name) for name in ("output", "algorithm", "dtype")}}
        expected = ", ".join(f"{value:.6g}" for value in np.atleast_1d(self.expected_value)[:12])
        return as_html(
            f"glasswood.{type(self).__name__}", {**forest_facts(self.game.forest), **own, "expected value": expected}
        )
