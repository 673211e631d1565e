"""A forest as users hold it: the arrays, and what can be done with them in one call."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from silva.ensemble import TreeEnsemble
from silva.evaluate.evaluator import Evaluator
from silva.evaluate.linear import with_means
from silva.evaluate.node_table import node_table
from silva.evaluate.predictor import make_predictor
from silva.evaluate.tuning import tune
from silva.facts import as_html, forest_facts, output_names
from silva.inputs import arranged, as_rows, refuse_transform
from silva.mapping.predictions import PredictionMapper
from silva.parallel import cached_property
from silva.storage import save_forest
from silva.writers.onnx import save_onnx

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from silva.typing import Algorithm, Array, Output, Rows


class Forest(TreeEnsemble):
    """An ensemble of binary trees, whatever library trained it: it predicts, is tuned and is saved.

    Made by `silva.load`, or by `ModelTreeRegressor` as ``forest_``. Its arrays are fields, read-only: `TreeEnsemble`
    (silva.ensemble) describes them.

    Attributes
    ----------
    n_trees, n_nodes, n_leaves, n_features, n_outputs : int
    depth : int
        Largest number of splits above a leaf.
    source, objective : str
        Library (and version) that trained the forest, and its objective.
    feature_names : tuple of str, or None
    classes : tuple of arrays
        Class labels of each classification output; empty for regression.
    choices : tuple of Choice
        What `tune` has measured; empty if it was not called.
    """

    def _repr_html_(self) -> str:
        """Show in notebooks what `silva info` prints."""
        return as_html("silva.Forest", forest_facts(self))

    @cached_property
    def _evaluator(self) -> Evaluator:
        return Evaluator(self)

    def predict(
        self,
        X: Rows,
        output: Output = "prediction",
        algorithm: Algorithm = "auto",
        device: str = "auto",
        n_jobs: int | None = None,
        by_position: bool = False,
    ) -> Any:
        """Predict rows as the source library does.

        Parameters
        ----------
        X : array-like or frame of shape (n, n_features)
            Columns are matched by name where both sides have names, by position otherwise (arrays, columns that are
            numbered 0, 1, ...). Of a pipeline, the rows that its first step takes.
        output : {"prediction", "margin", "probability", "leaf"}
            What the source's predict returns (labels for a classifier estimator, responses otherwise); the margin
            before the link; class probabilities; the source's leaf ids.
        algorithm : {"auto", "serial", "by_sample", "by_node", "windowed"}
            How the trees are evaluated (Spencer 2011, doi:10.48550/arXiv.1111.1373); results are the same to the bit.
            "serial": row by row, node by node, without parallelism (procedure 2). "by_sample": a row a lane
            (procedure 3). "by_node": all splits of a tree at once for each row, then the path through them
            (procedures 4 and 5); trees of at most 255 splits. "windowed": the next few levels below the current node
            at once, then a jump (section 6); trees of any size. "auto": what `tune` measured to be the fastest for
            such batches, a model of the costs without tuning.
        device : {"auto", "cpu", "cuda", "cuda:1", "cuda:all"}
            Where to run: "auto" where the rows live, and for rows on the host where it is faster; "cuda:all" splits
            rows over the GPUs of this machine.
        n_jobs : int, optional
            Threads; None or -1 for all.
        by_position : bool
            Take the columns of a frame in their order, whatever their names.

        Returns
        -------
        ndarray
            (n,) for one output, (n, n_outputs) for several, in the source's dtype; leaf ids int32, (n, n_trees) or the
            source's shape; probabilities of several classification outputs as a list, one array each.

        Raises
        ------
        ValueError
            If X does not fit the forest, a tree is too large for by_node, or probabilities are asked of a regression.
        TypeError
            If a column holds no numbers, or categories of another type than in training.
        DeviceError
            If a GPU is asked for and cannot be used.
        NotImplementedError
            For rows on a GPU where the forest translates categories by value, which needs rows on the host.

        Notes
        -----
        Routing is exact: every row reaches the leaf that it reaches in the source library. Margins are float64 sums in
        the order of the trees, whatever the schedule. O(n × n_trees × depth).
        """
        X = arranged(X, self, by_position, keeps_sparse=True)
        return self._evaluator.predict(X, output, algorithm, device, n_jobs)

    def predictor(
        self, output: Output = "prediction", algorithm: Algorithm = "auto", device: str = "cpu"
    ) -> Callable[[Array], Any]:
        """Prepare predictions of single rows with little latency.

        Everything that `predict` checks and looks up for a call is done here, once.

        Parameters
        ----------
        output, algorithm, device : str
            As for `predict`; "auto" chooses for one row. With "cuda", rows are NumPy arrays all the same.

        Returns
        -------
        callable
            Takes one row, a C-contiguous float32 or float64 array of shape (n_features,) or (1, n_features) in the
            order of the forest's features, categories as in an array for `predict` (an array of objects where
            CatBoost's or scikit-learn's are texts), missing values as NaN. Returns what ``predict`` returns for it,
            without the axis of rows: a number for one output, an array (n_outputs,) for several, leaf ids (n_trees,).
            It may be called by several threads at once, and pickles.

        Raises
        ------
        ValueError
            As for `predict`; the callable's only checks are the row's length and layout.
        TypeError
            From the callable, if the row is no float32 or float64 array.
        NotImplementedError
            For pipelines and target statistics, whose columns are not the trees' features.

        Notes
        -----
        NaN is routed to the default side also where the source library refuses it. The margin is the fastest output;
        responses and labels add some microseconds where the link is not the identity. Categories that are matched by
        value add a few tenths of a microsecond each, linear leaves about three microseconds.
        """
        refuse_transform(self, "predictor", "predict")
        return make_predictor(self._evaluator, output, algorithm, device)

    def mapper(
        self,
        output: Output = "prediction",
        columns: Any = (),
        inputs: Sequence[str] | None = None,
        device: str = "cpu",
        n_jobs: int | None = 1,
        path: str | os.PathLike[str] | None = None,
    ) -> PredictionMapper:
        """Make a function of batches that Dask, Spark, Ray, polars and DuckDB can send to their workers.

        Parameters
        ----------
        output : str
            As of `predict`. Columns of the results: ``prediction`` (``margin``, ``probability``), with ``_<output>``
            for several, or ``leaf_<tree>``.
        columns : sequence of str, or pyarrow.Schema
            Columns of the batches to keep before the results. A schema gives their types too, which `Mapper.schema` and
            `Mapper.meta` need, and to which the columns are cast.
        inputs : sequence of str, optional
            Columns that are the model's features, in its order; default by name.
        device : str
            As of `predict`. "cuda" is the first GPU that a worker sees: engines give each its own by
            CUDA_VISIBLE_DEVICES.
        n_jobs : int, optional
            Threads of a call; 1 since engines run a task a core, None or -1 for all.
        path : path, optional
            Write the model there and send its path alone; workers map the file, and those of a machine share its
            memory. Without it the model travels as bytes.

        Returns
        -------
        Mapper
            A picklable function from Arrow, pandas or polars batches to such batches, from arrays to arrays.

        Raises
        ------
        ValueError
            If an argument has no such choice.
        OSError
            If `path` cannot be written.
        NotImplementedError
            For pipelines, whose columns are not the trees' features.
        """
        refuse_transform(self, "mapper", "predict", takes_statistics=True)
        return PredictionMapper(self._evaluator, output, columns, inputs, device, n_jobs, path)

    def tune(self, X: Rows, seconds: float = 1.0, device: str = "auto", n_jobs: int | None = None) -> Forest:
        """Measure which algorithm is the fastest on rows like these.

        Parameters
        ----------
        X : array-like or frame of shape (n, n_features)
            Rows as they will be predicted, at least one; batches of 1, 100, 10,000, ... rows up to n are measured. Rows
            on a GPU measure GPUs alone.
        seconds : float
            Time to spend, about.
        device : {"auto", "cpu", "cuda", "cuda:1"}
            What to measure: "auto" the CPU, and a GPU where there is one.
        n_jobs : int, optional
            Threads, as for `predict`.

        Returns
        -------
        Forest
            The same forest with `choices`, which ``algorithm="auto"`` and ``device="auto"`` follow from then on. They
            are saved and pickled with it; on another machine, tune again. Predictions do not change.

        Raises
        ------
        ValueError
            If X has no rows or does not fit the forest, or `seconds` is no positive number.
        DeviceError
            If a GPU is asked for and cannot be used.
        """
        X = arranged(X, self, by_position=False)
        return dataclasses.replace(self, choices=tune(self._evaluator, X, seconds, device, n_jobs))

    def with_means(self, X: Rows, by_position: bool = False) -> Forest:
        """Take the means of the features in linear leaves from training rows.

        LightGBM's models (``linear_tree``) do not hold them, and path-dependent explanations need them: a feature that
        a coalition does not know counts as its mean over the leaf.

        Parameters
        ----------
        X : array-like or frame of shape (n, n_features)
            Training rows, or a sample of them. A leaf that none of them reaches has the means of all rows.
        by_position : bool
            Take the columns of a frame in their order, whatever their names.

        Returns
        -------
        Forest
            The same forest with these means; its predictions change by rounding.

        Raises
        ------
        ValueError
            If X does not fit the forest or has no rows, or no leaf holds a linear model.

        Notes
        -----
        O(n × n_trees × terms of a leaf).
        """
        if not self.has_linear_leaves:
            raise ValueError("the leaves of this forest are constants, which have no means; explain it as it is")
        rows = as_rows(arranged(X, self, by_position), self)
        if len(rows) == 0:
            raise ValueError("X has no rows to take means of; pass training rows")
        evaluator = self._evaluator
        positions = evaluator.cpu.positions(rows, evaluator.choose("auto", len(rows), "cpu"), None)
        return as_forest(with_means(self, rows, positions))

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the outputs: those of the classes where there is an output a class, "0", "1", ... elsewhere."""
        return tuple(output_names(self, self.n_outputs))

    def trees_to_dataframe(self) -> Any:
        """List all nodes of all trees.

        Returns
        -------
        pandas.DataFrame
            A row a node, with XGBoost's columns but for its Gain: Tree, Node and ID ("tree-node"); Feature ("Leaf" at
            leaves); Split, the threshold below which a row takes Yes, NaN at leaves and where categories are tested;
            Yes, No and Missing, the IDs of the nodes that rows go to next; Value of a leaf, times the tree's weight;
            Cover; Category, the categories that take Yes. Output is what a tree of scalar leaves adds to, -1 where
            leaves are vectors. Nodes are numbered breadth-first, in silva's order.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        try:
            import pandas
        except ImportError as error:
            raise ImportError("trees_to_dataframe returns a pandas.DataFrame: pip install pandas") from error
        return pandas.DataFrame(node_table(self))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the forest as a `.silva` file, or as an ONNX model for onnxruntime, complete or not at all.

        Parameters
        ----------
        path : path
            With the suffix ``.silva``, by which `silva.load` knows how to read it, or ``.onnx``. An ONNX model computes
            in doubles: input ``X``, of the type in which the forest compares, with categories as codes; outputs
            ``margin`` and, where they differ, ``response`` (probabilities of all classes) and ``label``.

        Raises
        ------
        ValueError
            If the suffix is that of another library's models, such as ``.json``.
        NotImplementedError
            If ONNX has no operators for the forest, such as its link.
        OSError
            If the file cannot be written; nothing is left behind.
        """
        if str(path).lower().endswith(".onnx"):
            save_onnx(self, path)
        else:
            save_forest(self, path)


def as_forest(trees: TreeEnsemble) -> Forest:
    """Make a forest of the same arrays, which are checked already."""
    if isinstance(trees, Forest):
        return trees
    forest = Forest.__new__(Forest)
    forest.__dict__.update(trees.__getstate__())
    return forest
