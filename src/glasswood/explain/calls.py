"""Calls of explainers that take rows: values."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from glasswood.base.device import on_host
from glasswood.base.escapes import quoted
from glasswood.base.parallel import cached_property
from glasswood.base.typing import Array, Rows
from glasswood.evaluate.evaluator import evaluator_of
from glasswood.explain.additivity import check_sums
from glasswood.explain.approximate import approximate_values
from glasswood.explain.background_errors import spread_of_batches
from glasswood.explain.checks import refuse_linear_leaves
from glasswood.explain.engines import Engines
from glasswood.explain.interaction_calls import InteractionCalls
from glasswood.explain.responses.coalitions import CoalitionExplainer
from glasswood.explain.results.explanation import base_values_of, make_explanation, shown_names
from glasswood.explain.row import make_row
from glasswood.explain.shap_arguments import call_arguments, taking_one_row
from glasswood.explain.sparse import in_used_columns, sparse_values, values_of_sparse
from glasswood.inputs import arranged, as_rows, refuse_transform
from glasswood.inputs.frames import frame_maker
from glasswood.inputs.sparse import is_sparse
from glasswood.mapping.columns import check_unique
from glasswood.model.facts import output_names

if TYPE_CHECKING:
    from glasswood.explain.game import Game
    from glasswood.inputs.placed import PlacedRows


class Asked(NamedTuple):
    """What a call of `shap_values` asks for besides its rows: see there."""

    y: ArrayLike | None
    out: Array | None
    check_additivity: bool
    sparse_output: bool
    standard_errors: bool | Literal["estimates"]
    approximate: bool

    @property
    def is_plain(self) -> bool:
        """Whether an earlier call of the same rows may be answered again."""
        return self.out is None and not (self.check_additivity or self.sparse_output)


def refuse_together(asked: Asked, output: Any, as_frame: bool) -> None:
    """Raise ValueError for options that exclude each other."""
    if as_frame and (asked.sparse_output or asked.out is not None):
        raise ValueError("as_frame=True returns a new frame; leave out sparse_output and out")
    if asked.sparse_output and asked.out is not None:
        raise ValueError("out is dense; pass either out or sparse_output=True")
    if asked.standard_errors and asked.approximate:
        raise ValueError("approximate=True has no standard errors; leave one of them out")
    if asked.check_additivity and output != "margin":
        raise ValueError(f"check_additivity compares margins; leave it off for output={quoted(output)}")


class ExplainerCalls(InteractionCalls):
    """Methods of `Explainer` that take rows.

    Attributes
    ----------
    takes_other_names : bool
        Whether the class reads frames without a feature's name by position, as shap does.
    """

    takes_other_names = False

    @taking_one_row
    def shap_values(
        self,
        X: Rows,
        y: ArrayLike | None = None,
        *,
        out: Array | None = None,
        check_additivity: bool = False,
        sparse_output: bool = False,
        standard_errors: bool | Literal["estimates"] = False,
        as_frame: bool = False,
        **shap_arguments: Any,
    ) -> Any:
        """Compute SHAP values.

        Parameters
        ----------
        X : array-like, frame or sparse rows (SciPy, CuPy) of shape (n, F), or one row (F,)
            Sparse rows are made dense a chunk at a time, and only in the columns that the forest uses. An entry that
            is not stored is missing for XGBoost and 0 for other libraries. For a single row (an array or a
            pandas.Series), the result has no row axis.
        y : array-like of shape (n,), optional
            Labels, only for output="log_loss": classes of the model, or their numbers from 0 if the model has no
            classes or text.
        out : ndarray, optional
            Array for the result, with its shape and dtype and any strides, such as a memory map for results that are
            larger than memory.
        check_additivity : bool
            Also predict the rows, and check that each row's values and `expected_value` add up to its margin, within
            the error of a value (Notes of `Explainer`) for each feature of each tree.
        sparse_output : bool
            Return a CSR array (n, F) of the values that are not 0, (1, F) for one row; for k > 1 outputs, a list of k.
        standard_errors : bool or "estimates"
            Return values and their standard errors: how far values would move with another background of this size,
            whose rows count as independent draws. They are 0 without a background, and NaN with a single background
            row. "estimates": only the errors of responses of rows that differ from background rows on more than 20
            features, which glasswood estimates; 0 for all other values.
        as_frame : bool
            Return a frame of the library of X (pandas, polars, pyarrow), with the index of X and a column for each
            feature; for k > 1 outputs, columns ``<feature>_<output>``.
        **shap_arguments
            `tree_limit`: explain only the first trees, which may not have linear leaves, counted as shap counts them:
            rounds of LightGBM without a background, otherwise trees. `approximate`: shap's
            approximation (Saabas), without a background. These are not Shapley values, and rarely faster.

        Returns
        -------
        ndarray of shape (n, F), or (n, F, k) for k > 1 outputs, of `dtype`; F is the number of `players`
            Values in the unit of the output. A row's values and `expected_value` add up to its margin, probability or
            loss (with the expected value of its label). With `standard_errors`, a pair of such arrays; with `as_frame`,
            frames in place of arrays.

        Raises
        ------
        ValueError
            If X does not fit the forest, `out` the result, or `y` the rows.
        ArithmeticError
            If `check_additivity` finds a row whose values do not add up; `out` then holds them.
        NotImplementedError
            For linear leaves on a GPU with a background or groups.
        DeviceError
            If `device` or X requires a GPU that cannot be used.

        Warns
        -----
        EstimateWarning
            If values of a response are estimates, because rows differ from background rows on more than 20 features.
        CostWarning
            If exact values of a response will take more than 20 seconds.

        Notes
        -----
        Standard errors of exact responses follow from the pairs of rows, at no cost on the CPU. Those of margins, and
        of responses on GPUs, follow from up to 50 batches of the background, and cost as many calls.
        """
        limit, approximate = call_arguments(shap_arguments, self.game)
        asked = Asked(y, out, check_additivity, sparse_output, standard_errors, approximate)
        refuse_together(asked, self.settings.output, as_frame)
        found = (self if limit is None else self._of_first_trees(limit))._values_of(X, asked)
        return self._frames(X, found) if as_frame else found

    def _values_of(self, X: Rows, asked: Asked) -> Any:
        """Compute what `shap_values` returns, without frames."""
        if asked.standard_errors:
            return self._values_and_errors(X, asked)
        if asked.approximate:
            values = self._approximate_values(X, asked.out)
        elif asked.is_plain and (kept := self._engines.again(X, "values")) is not None:
            return kept
        else:
            X = arranged(X, self.game.forest, keeps_sparse=not self.game.players.groups)
            if is_sparse(X):
                return self._values_of_sparse(X, asked)
            values = self._values_of_placed(self._engines.place(X, "values", asked.y), asked)
        return sparse_values(on_host(values), self.n_outputs) if asked.sparse_output else values

    def _values_of_sparse(self, X: Any, asked: Asked) -> Any:
        explain = functools.partial(self._of_used.shap_values, check_additivity=asked.check_additivity)
        about = self.game, self.n_outputs, self.settings.dtype
        return values_of_sparse(explain, *about, X, asked.out, asked.sparse_output, asked.y)

    def _values_of_placed(self, rows: PlacedRows, asked: Asked) -> Array:
        values: Array = self._engines.of(rows).values(rows, asked.out)
        if asked.check_additivity:
            check_sums(self.game.forest, self.settings.dtype, self._engines.cpu.expected_value, rows, values)
        return values

    def _frames(self, X: Rows, found: Any) -> Any:
        """Make a frame of values like the caller's rows, or two of values and their errors."""
        make_frame, names = frame_maker(X), self._column_names(X)
        parts = [on_host(one).reshape(len(one), -1).T for one in (found if isinstance(found, tuple) else [found])]
        frames = tuple(make_frame(dict(zip(names, map(np.ascontiguousarray, part), strict=True))) for part in parts)
        return frames if isinstance(found, tuple) else frames[0]

    def _column_names(self, X: Rows) -> list[str]:
        """Name the columns of values by features, and by outputs where there are several."""
        names = shown_names(self.game, self.settings, arranged(X, self.game.forest))
        if self.n_outputs > 1:
            outputs = self.settings.output_names or output_names(self.game.forest, self.n_outputs)
            names = [f"{name}_{output}" for name in names for output in outputs]
        check_unique(names)
        return names

    def _values_and_errors(self, X: Rows, asked: Asked) -> Any:
        """Values and their standard errors: pair by pair on the CPU, elsewhere by batches of the background."""
        rows = self._engines.place(arranged(X, self.game.forest), "values", asked.y)
        engine, of_background = self._engines.of(rows), asked.standard_errors is True and self.game.has_background
        if isinstance(engine, CoalitionExplainer):
            return engine.values_and_errors(rows, asked.out, of_background)
        values = self._values_of_placed(rows, asked)
        if not of_background:
            return values, 0 * values

        def explain(game: Game) -> Any:
            return Engines(game, self.settings).of(rows).values(rows)

        return values, spread_of_batches(self.game, explain, values)

    def _approximate_values(self, X: Rows, out: Array | None) -> Array:
        """Give each split's change of the mean to its feature."""
        if self.game.has_background or self.game.players.groups:
            raise NotImplementedError(
                "approximate=True supports neither a background nor groups; leave it out for exact values"
            )
        forest = self.game.forest
        refuse_linear_leaves(forest, "approximate=True", "leave it out for exact values")
        rows = as_rows(on_host(arranged(X, forest)), forest)
        values = approximate_values(forest, evaluator_of(forest).positions(rows)).astype(self.settings.dtype)
        result = values[:, :, 0] if forest.n_outputs == 1 else values
        if out is None:
            return result
        out[:] = result
        return out

    @cached_property
    def _of_used(self) -> Self:
        """Explain the features that the forest uses alone, which sparse rows have."""
        return self._of_game(in_used_columns(self.game))

    def row(self, top: int | None = None, names: bool = False) -> Callable[[Any], Any]:
        """Prepare explanations of single rows with low latency, such as reason codes in serving.

        `shap_values` checks its arguments in each call; here this is done once.

        Parameters
        ----------
        top : int, optional
            Number of features to return, those with the largest magnitudes. None returns the values of all features.
        names : bool
            Accept a mapping of names to values (text for categories, numbers, None if missing), a tuple of values in
            the order of the features, or the array that `Forest.encoder` makes from either. With `top`, return a list
            of reasons (feature, value, effect) with the row's own values; for several outputs, a list per output.

        Returns
        -------
        callable
            A function of one row: a float32 or float64 array of shape (F,) or (1, F), in the order of the
            forest's features, with categories as in an array for `shap_values` (an array of objects if CatBoost's or
            scikit-learn's are text) and missing values as NaN. It returns what `shap_values` returns, without
            the row axis: an ndarray (F,), or (F, k) for k > 1 outputs. The bits are the same if all trees keep their
            tables, with a background, and for linear leaves; otherwise results may differ by rounding. With `top`, it
            returns a pair of int32 features (top,) and their values (top,), by falling magnitude; both (top, k) for
            k > 1 outputs. Threads may share it, and it can be pickled.

        Raises
        ------
        ValueError
            If `top` is below 1; from the callable, if the row has other features or another number of them.
        TypeError
            From the callable, if the row is not a float32 or float64 array, or its values do not fit the features.
        NotImplementedError
            For pipelines and target statistics, whose columns are not the trees' features, and output="log_loss".

        Notes
        -----
        Runs on the CPU. It takes microseconds where tables of every tree fit into `table_bytes` (100 trees of depth 6
        and 64 features 7 MB and 16 us, a thousand of depth 8 and 128 features 550 MB), which are built here even
        where batches are walked; otherwise as long as `shap_values`.
        """
        if self.settings.output == "log_loss":
            raise NotImplementedError("single rows have no labels for output='log_loss'; use shap_values(X, y=y)")
        refuse_transform(self.game.forest, "row", "shap_values")
        return make_row(self._engines.cpu, top, names)

    @taking_one_row
    def __call__(
        self,
        X: Rows,
        y: ArrayLike | None = None,
        interactions: bool = False,
        *,
        check_additivity: bool = False,
        standard_errors: bool = False,
        **shap_arguments: Any,
    ) -> Any:
        """Explain rows for shap's plots.

        Parameters
        ----------
        X : array-like or frame of shape (n, F), or one row (F,)
        y : array-like of shape (n,), optional
            As in `shap_values`.
        interactions : bool
            Compute interaction values instead of values.
        check_additivity, standard_errors : bool
            As in `shap_values`.
        **shap_arguments
            As in `shap_values`.

        Returns
        -------
        shap.Explanation
            Its fields are values (n, F) or (n, F, k), base_values (n,) or (n, k), data (the rows as given, with
            categories by value and dense rows), feature_names, output_names for k > 1 outputs and, if asked for or if
            values are estimates, error_std (their standard errors). If shap is not installed, a dataclass with the same
            fields. For a single row, the fields have no row axis.
        """
        limit, approximate = call_arguments(shap_arguments, self.game, of_pairs=interactions)
        if standard_errors and interactions:
            raise ValueError("interactions have no standard errors; leave one of them out")
        if limit is not None:
            how: Any = shap_arguments | {"tree_limit": None, "check_additivity": check_additivity}
            how["standard_errors"] = standard_errors
            return self._of_first_trees(limit)(X, y, interactions, **how)
        errors = None
        if interactions:
            values = self.shap_interaction_values(X, y, **shap_arguments)
        elif standard_errors:
            how = shap_arguments | {"standard_errors": True}
            values, errors = self.shap_values(X, y, check_additivity=check_additivity, **how)
            errors = on_host(errors)
        elif isinstance(self._engines.cpu, CoalitionExplainer) and not (check_additivity or approximate):
            how = shap_arguments | {"standard_errors": "estimates"}
            values, errors = self.shap_values(X, y, **how)
            self._engines.cpu.warn_of_estimates(errors)
            errors = on_host(errors) if errors.any() else None
        else:
            shap_arguments["check_additivity"] = check_additivity
            values = self.shap_values(X, y, **shap_arguments)

        base_values = base_values_of(self.game.forest, self.settings.output, self.expected_value, len(values), y)
        about = self.game, self.settings, self.n_outputs, X
        return make_explanation(*about, on_host(values), base_values, errors)
