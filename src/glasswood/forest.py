"""The public Forest: the arrays of an ensemble, with methods to predict, tune and save it."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from glasswood.base.config import device_of
from glasswood.base.escapes import shown
from glasswood.base.typing import Algorithm, Array, Output, Rows
from glasswood.evaluate.covers import with_covers
from glasswood.evaluate.evaluator import evaluator_of
from glasswood.evaluate.linear import with_means
from glasswood.evaluate.node_table import node_table
from glasswood.evaluate.predictor import make_predictor
from glasswood.evaluate.tuning import tune
from glasswood.inputs import arranged, as_rows, refuse_transform, with_tables
from glasswood.inputs.encoder import RowEncoder
from glasswood.inputs.frames import frame_maker
from glasswood.inputs.tables import refuse_open_tables, with_named_tables, with_sets
from glasswood.mapping.columns import plain, prediction_columns
from glasswood.mapping.predictions import PredictionMapper
from glasswood.model.ensemble import TreeEnsemble
from glasswood.model.facts import OfEnsemble, as_html, forest_facts, output_names
from glasswood.model.storage import save_forest
from glasswood.model.stored_fields import check_metadata
from glasswood.writers.onnx import save_onnx


class Forest(OfEnsemble):
    """An ensemble of binary trees from any library.

    `glasswood.load` returns one, and glasswood's estimators have one as ``forest_``.

    Parameters
    ----------
    ensemble : TreeEnsemble
        The trees.

    Attributes
    ----------
    ensemble : TreeEnsemble
        The trees as flat, read-only arrays, and how their library turned margins into predictions
        (glasswood.model.ensemble).
    n_trees, n_nodes, n_leaves, n_features, n_outputs : int
    depth : int
        Largest number of splits above a leaf.
    source, objective : str
        Library (and version) that trained the forest, and its objective.
    feature_names : tuple of str, or None
    classes : tuple of arrays
        Class labels of each classification output; empty for regression.
    choices : tuple of Choice
        What `tune` has measured; empty before.
    checked : Checked, or None
        What `glasswood.load` has found in comparing the forest with the live model that it was read from: ``rows``, the
        largest ``difference``, and what was left ``unchecked``; None for files and with ``check=False``.
    """

    def __init__(self, ensemble: TreeEnsemble) -> None:
        self.ensemble = ensemble

    def __getstate__(self) -> dict[str, object]:
        return {"ensemble": self.ensemble}

    def __repr__(self) -> str:
        return repr(self.ensemble).replace("TreeEnsemble", "Forest", 1)

    def _repr_html_(self) -> str:
        """Show in notebooks what `glasswood info` prints."""
        return as_html("glasswood.Forest", forest_facts(self.ensemble))

    def predict(
        self,
        X: Rows,
        output: Output = "prediction",
        algorithm: Algorithm = "auto",
        device: str = "auto",
        n_jobs: int | None = None,
        as_frame: bool = False,
    ) -> Any:
        """Predict rows as the source library does.

        Parameters
        ----------
        X : array-like or frame of shape (n, n_features)
            Columns are matched by name if the forest and X have names, otherwise by position (arrays, and columns
            numbered 0, 1, ...); ``glasswood.load(model, columns=...)`` ignores names, or columns that the forest was
            not trained on. For a pipeline, the rows that its first step accepts.
        output : {"prediction", "margin", "probability", "leaf"}
            "prediction" is what the source's predict returns: labels for a classifier estimator, otherwise responses.
            "margin" is the sum of the trees before the link, "probability" the probability of each class, "leaf" the
            leaf ids of the source.
        algorithm : {"auto", "serial", "by_sample", "by_node", "windowed"}
            How the trees are evaluated (Spencer 2011, doi:10.48550/arXiv.1111.1373); results are the same to the bit.
            "auto" uses the algorithm that `tune` measured to be the fastest for such batches or, without tuning, the
            one that a few calls show, or estimates if calls are long. "serial": row by row, node by node, without
            parallelism (procedure 2). "by_sample": one row per lane (procedure 3). "by_node": all splits of a tree at
            once for each row, then the path through them (procedures 4 and 5); for trees of at most 255 splits.
            "windowed": the next few levels below the current node at once, then a jump (section 6); for trees of any
            size.
        device : {"auto", "cpu", "cuda", "cuda:1", "cuda:all"}
            Where to run. "auto" is the device of `glasswood.set_config`, which describes them.
        n_jobs : int, optional
            Number of threads; -1 for all. None is that of `glasswood.set_config`.
        as_frame : bool
            Return a frame of the library of X (pandas, polars, pyarrow), with the index of X.

        Returns
        -------
        ndarray
            (n,) for one output, (n, n_outputs) for several, in the source's dtype. Leaf ids are int32, (n, n_trees) or
            the source's shape. Probabilities of several classification outputs are a list with one array each. With
            `as_frame`, a frame with a column ``prediction``, or ``<output>_<name>`` for each of several outputs.

        Raises
        ------
        ValueError
            If X does not fit the forest, a tree is too large for "by_node", or the model is a regression and has no
            probabilities.
        TypeError
            If a column holds no numbers, or categories of another type than in training; for `as_frame`, if X is not a
            frame.
        DeviceError
            If `device` or X requires a GPU that cannot be used.
        NotImplementedError
            For rows on a GPU if the forest matches categories by value, which requires rows on the host.

        Notes
        -----
        Routing is exact: every row reaches the leaf that it reaches in the source library. Margins are float64 sums in
        the order of the trees, whatever the schedule. O(n × n_trees × depth).
        """
        make_frame = frame_maker(X) if as_frame else None
        rows = arranged(X, self.ensemble, keeps_sparse=True, keeps_statistics=True)
        found = evaluator_of(self.ensemble).predict(rows, output, algorithm, device_of(device), n_jobs)
        if make_frame is None:
            return found
        columns = prediction_columns(found, output, self.ensemble)
        return make_frame({name: plain(column) for name, column in columns.items()})

    def predictor(
        self,
        output: Output = "prediction",
        *,
        names: bool = False,
        strict: bool = False,
    ) -> Callable[[Any], Any]:
        """Prepare predictions of single rows with low latency.

        `predict` checks its arguments in each call; `predictor` does so once.

        Parameters
        ----------
        output : str
            As for `predict`.
        names : bool
            Accept a mapping of names to values (text for categories, numbers, None if missing), a tuple of values in
            the order of the features, or the array that `encoder` makes from either. A text that is not one of the
            model's categories, such as one with a typo, is not refused: as in `predict`, most models count it as
            missing. The callable counts such values by feature: its attribute `unseen`.
        strict : bool
            Refuse such a value, with the category that was probably meant; with `names`, and not for CatBoost's models.

        Returns
        -------
        callable
            A function of one row: a float32 or float64 array of shape (n_features,) or (1, n_features), in the order of
            the forest's features, with categories as in an array for `predict` (an array of objects if CatBoost's or
            scikit-learn's are text) and missing values as NaN. It returns what `predict` returns for the row, without
            the row axis: a number for one output, an array (n_outputs,) for several, leaf ids (n_trees,). Several
            threads may call it at once, and it can be pickled.

        Raises
        ------
        ValueError
            If `output` is unknown; from the callable, if the row has other features or another number of them, or, if
            strict, a value that is none of the feature's categories.
        TypeError
            From the callable, if the row is not a float32 or float64 array, or its values do not fit the features.
        NotImplementedError
            For pipelines and target statistics, whose columns are not the trees' features; for `strict`, CatBoost's
            models, which hold the categories alone that a split tests.

        Notes
        -----
        Rows are predicted on the CPU, by the algorithm that `tune` measured to be the fastest for one row or, without
        tuning, the one with the lowest estimated cost. NaN goes to the default side even if the source library refuses
        it. The margin is the fastest output. Responses and labels add some microseconds if the link is not the
        identity, categories that are matched by value a few tenths of a microsecond each, linear leaves about three
        microseconds, and names some microseconds.
        """
        refuse_transform(self.ensemble, "predictor", "predict")
        return make_predictor(evaluator_of(self.ensemble), output, "auto", names, strict)

    def encoder(self, strict: bool = False) -> RowEncoder:
        """Make the function that turns a row of texts and numbers into an array of numbers.

        Parameters
        ----------
        strict : bool
            Refuse a text that is none of the feature's categories, as for `predictor`.

        Returns
        -------
        RowEncoder
            A function of a mapping of names to values, or of a tuple of values in the order of the features. It returns
            float64, (n_features,), which ``predictor(names=True)`` and ``Explainer.row(names=True)`` accept as a row.
            Its attribute `unseen` counts, by feature, values that are none of the categories.

        Raises
        ------
        NotImplementedError
            For pipelines and target statistics, whose columns are not the trees' features.

        Examples
        --------
        >>> row = forest.encoder()({"age": 39, "workclass": "Private", "hours": None})  # doctest: +SKIP
        """
        refuse_transform(self.ensemble, "encoder", "predict")
        return RowEncoder(self.ensemble, strict)

    def mapper(
        self,
        output: Output = "prediction",
        columns: Any = (),
        inputs: Sequence[str] | None = None,
        path: str | os.PathLike[str] | None = None,
    ) -> PredictionMapper:
        """Make a function of batches that Dask, Spark, Ray, polars and DuckDB can send to their workers.

        Parameters
        ----------
        output : str
            As for `predict`. The results have the column ``prediction`` (``margin``, ``probability``), with
            ``_<output>`` for several outputs, or ``leaf_<tree>``.
        columns : sequence of str, or pyarrow.Schema
            Columns of the batches to keep before the results. A schema also gives their types, which `Mapper.schema`
            and `Mapper.meta` need; the columns are cast to them.
        inputs : sequence of str, optional
            Columns that hold the model's features, in the model's order. By default they are found by name.
        path : path, optional
            Write the model to this file and send only the path. Workers map the file, so those of one machine share
            its memory. By default the model travels as bytes.

        Returns
        -------
        Mapper
            A picklable function from Arrow, pandas or polars batches to batches of the same kind, and from arrays to
            arrays.

        Raises
        ------
        ValueError
            If an argument has an unknown value.
        OSError
            If `path` cannot be written.
        NotImplementedError
            For pipelines, whose columns are not the trees' features.

        Notes
        -----
        A call uses one thread, because engines run one task per core, and the CPU. If `glasswood.set_config` or a block
        of `glasswood.config_context` around this call gives a number of threads or a GPU, the mapper takes these
        along. "cuda" is the first GPU that a worker sees; engines assign GPUs to workers by CUDA_VISIBLE_DEVICES.
        """
        refuse_transform(self.ensemble, "mapper", "predict", takes_statistics=True)
        return PredictionMapper(evaluator_of(self.ensemble), output, columns, inputs, path)

    def tune(self, X: Rows, seconds: float = 1.0) -> Forest:
        """Measure which algorithm is the fastest on rows like these.

        Parameters
        ----------
        X : array-like or frame of shape (n, n_features)
            At least one row, similar to those that will be predicted. glasswood measures batches of 1, 100, 10,000, ...
            rows up to n, on the device and the threads of `glasswood.set_config`: for "auto" on the CPU, and on a GPU
            if there is one. With rows on a GPU, only GPUs are measured.
        seconds : float
            Approximate time to spend.

        Returns
        -------
        Forest
            The same forest with `choices`, which ``algorithm="auto"`` and ``device="auto"`` follow. They are saved and
            pickled with the forest. Tune again on another machine. Predictions do not change.

        Raises
        ------
        ValueError
            If X has no rows or does not fit the forest, or `seconds` is not a positive number.
        DeviceError
            If `device` or X requires a GPU that cannot be used.
        """
        X = arranged(X, self.ensemble)
        return Forest(
            dataclasses.replace(
                self.ensemble, choices=tune(evaluator_of(self.ensemble), X, seconds, device_of("auto"), None)
            )
        )

    def with_means(self, X: Rows) -> Forest:
        """Compute the means of the features in linear leaves from training rows.

        Path-dependent explanations need them, because an unknown feature counts as its mean over the leaf. LightGBM's
        models (``linear_tree``) do not contain them.

        Parameters
        ----------
        X : array-like or frame of shape (n, n_features)
            Training rows, or a sample of them. A leaf that none of them reaches gets the means of all rows.

        Returns
        -------
        Forest
            The same forest with these means. Its predictions change only by rounding.

        Raises
        ------
        ValueError
            If X does not fit the forest or has no rows, or no leaf holds a linear model.

        Notes
        -----
        O(n × n_trees × terms of a leaf).
        """
        if not self.ensemble.has_linear_leaves:
            raise ValueError("the leaves of this forest are constants, which have no means; explain it as it is")
        rows = self._some_rows(X, "take means of")
        return Forest(with_means(self.ensemble, rows, evaluator_of(self.ensemble).positions(rows)))

    def with_categories(self, X: Rows | Sequence[str]) -> Forest:
        """Tell which columns LightGBM's tables of categories belong to.

        LightGBM's models list the categories of the training frame's columns of dtype category, but not which columns
        those were, and give them to the columns of dtype category of each frame that they predict. So does `predict`.
        Whatever reads rows without such columns, or shows categories without rows (rows by name, CSV files, texts,
        pictures, code), needs the columns: from a frame or by name. Where the model leaves only one choice, glasswood
        has made it when it read the model.

        Parameters
        ----------
        X : frame of shape (n, n_features), or sequence of str
            A frame of pandas, polars or pyarrow with the dtypes of training; one row is enough. Or the names of the
            columns of dtype category.

        Returns
        -------
        Forest
            The same forest, whose features know their categories; this forest if there is nothing to tell.

        Raises
        ------
        ValueError
            If X has another number of columns of categories than the model has tables, or they held other values in
            training.

        Examples
        --------
        >>> forest = glasswood.load("model.txt").with_categories(["city", "kind"])  # doctest: +SKIP
        """
        if isinstance(X, list | tuple) and all(isinstance(name, str) for name in X):
            trees = with_named_tables(X, self.ensemble)
        else:
            trees = with_tables(X, self.ensemble)
        return self if trees is self.ensemble else Forest(trees)

    def with_covers(self, X: Rows) -> Forest:
        """Compute the covers of the nodes from rows: how many of them pass each node.

        Path-dependent explanations weight the two sides of a split by the covers. With covers from other rows, they
        explain another population. Models without covers (ONNX) need this for path-dependent explanations.

        Parameters
        ----------
        X : array-like or frame of shape (n, n_features)
            Training rows, a sample of them, or other rows. If none of them passes a split, both sides have the same
            weight.

        Returns
        -------
        Forest
            The same forest with these covers. Predictions do not change.

        Raises
        ------
        ValueError
            If X does not fit the forest or has no rows.

        Notes
        -----
        Costs about as much as predicting the rows.

        Examples
        --------
        >>> glasswood.Explainer(forest.with_covers(X))  # doctest: +SKIP
        """
        rows = self._some_rows(X, "count")
        return Forest(with_covers(self.ensemble, rows, evaluator_of(self.ensemble).positions))

    def _some_rows(self, X: Rows, what: str) -> Array:
        rows = as_rows(arranged(X, self.ensemble), self.ensemble)
        if len(rows) == 0:
            raise ValueError(f"X has no rows to {what}; pass training rows")
        return rows

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the outputs: times, parameters or treatments; classes if each has one; otherwise "0", "1", ...."""
        return tuple(output_names(self.ensemble, self.n_outputs))

    def trees_to_dataframe(self) -> Any:
        """List all nodes of all trees.

        Returns
        -------
        pandas.DataFrame
            One row per node, with XGBoost's columns except Gain: Tree, Node and ID ("tree-node"); Feature ("Leaf" for
            leaves); Split, the threshold below which a row goes to Yes, NaN for leaves and tests of categories; Yes, No
            and Missing, the IDs of the next nodes; Value of a leaf, times the weight of the tree; Cover; Category, the
            categories that go to Yes. Output is the output to which a tree of scalar leaves adds, -1 if leaves are
            vectors. Nodes are numbered breadth-first, in glasswood's order.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        refuse_open_tables(self.ensemble, "trees_to_dataframe")
        try:
            import pandas
        except ImportError as error:
            raise ImportError("trees_to_dataframe returns a pandas.DataFrame: pip install pandas") from error
        return pandas.DataFrame(node_table(with_sets(self.ensemble)))

    def save(self, path: str | os.PathLike[str], *, metadata: Mapping[str, Any] | None = None) -> None:
        """Write the forest to a `.glasswood` file or, for onnxruntime, to an ONNX file.

        The file appears complete or not at all.

        Parameters
        ----------
        path : path
            A file name that ends in ``.glasswood`` or ``.onnx``. An ONNX model computes in float64. Its input ``X`` has
            the type in which the forest compares, with categories as codes. Its outputs are ``margin`` and, if they
            differ, ``response`` (probabilities of all classes) and ``label``.
        metadata : mapping, optional
            What a `.glasswood` file says of the model, such as ``{"author": "credit team", "trained": "2026-11-28"}``:
            texts, numbers, booleans, None, and lists and dicts of them, at most 2**20 characters as JSON. The
            loaded forest has it in ``ensemble.metadata``, and ``glasswood info`` shows it. The default keeps what the
            forest holds.

        Raises
        ------
        TypeError
            If the metadata holds other values.
        ValueError
            If the suffix belongs to another library's models or to pickles, such as ``.json`` and ``.pkl``; if metadata
            is too long, or given for an ONNX file.
        NotImplementedError
            If ONNX has no operators for the forest, such as for its link.
        OSError
            If the file cannot be written; nothing is left behind.
        """
        if str(path).lower().endswith(".onnx"):
            if metadata is not None:
                raise ValueError(f"{shown(path)} is an ONNX file, which takes no metadata; save a .glasswood file")
            save_onnx(self.ensemble, path)
        elif metadata is None:
            save_forest(self.ensemble, path)
        else:
            save_forest(dataclasses.replace(self.ensemble, metadata=check_metadata(metadata)), path)
