"""Summaries of SHAP values that need no values: sums and counts that add up over batches and machines."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from glasswood import _core
from glasswood.base.escapes import escaped_errors, quoted, shown
from glasswood.base.extras import import_extra
from glasswood.base.files import check_output, replacing
from glasswood.base.parallel import n_threads
from glasswood.base.typing import Array, Doubles, Int64s
from glasswood.inputs.batches import batches_of, length_of
from glasswood.model.storage import UNREADABLE

OCTAVES, STEPS = 45, 32
"""Powers of 2 below the scale that the sketch tells apart, and bins of each; 23 KB a feature and output."""

HALF = OCTAVES * STEPS
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
LEAST_ROOM, ROOM_OF_A_BYTE = 2**26, 400
"""Largest number of bytes of a read summary's bins: a minimum, and a number per byte of its text."""

KEY = b"glasswood_summary"
ARRAYS = ("total", "squares", "magnitudes", "leads", "sketch", "pair_magnitudes")


class Summary:
    """Sums over the SHAP values of many rows (`Explainer.summary`). ``a + b`` is the summary of the rows of both.

    Attributes
    ----------
    n_rows : int
    names : tuple of str
        Features, or groups.
    output_names : list of str
    expected_value : ndarray of shape (k,)
    """

    names: tuple[str, ...]
    output_names: list[str]
    scale: float
    total: Doubles
    squares: Doubles
    magnitudes: Doubles
    n_rows: int
    n_pair_rows: int

    def __init__(self, names: Sequence[str], output_names: Sequence[str], expected_value: Any, scale: float) -> None:
        self.names, self.output_names = tuple(names), list(output_names)
        self.expected_value: Doubles = np.atleast_1d(np.asarray(expected_value, np.float64))
        self.scale, self.n_rows, self.n_pair_rows = float(scale), 0, 0
        shape = len(self.names), len(self.output_names)
        self.total, self.squares, self.magnitudes = (np.zeros(shape) for _ in range(3))
        self.leads: Int64s = np.zeros(shape, np.int64)
        self.sketch: Int64s = np.zeros((*shape, 2 * HALF + 1), np.int64)
        self.pair_magnitudes: Doubles = np.zeros((0, 0, shape[1]))

    def __repr__(self) -> str:
        return f"Summary({self.n_rows:,} rows, {len(self.names)} features)"

    def _add_values(self, values: Array, n_jobs: int | None = None) -> None:
        """Count SHAP values (n, P) or (n, P, k)."""
        values = np.ascontiguousarray(values.reshape(len(values), *self.total.shape))
        self.n_rows += len(values)
        sums = self.total, self.squares, self.magnitudes, self.leads, self.sketch
        _core.add_values(values, *sums, _top(self.scale) - HALF, n_threads(n_jobs))

    def _add_interactions(self, values: Array) -> None:
        """Count interaction values (n, P, P) or (n, P, P, k)."""
        n = len(self.names)
        values = values.reshape(len(values), n, n, -1)
        if not self.pair_magnitudes.size:
            self.pair_magnitudes = np.zeros((n, n, self.total.shape[1]))
        self.n_pair_rows += len(values)
        self.pair_magnitudes += np.abs(values).sum(axis=0, dtype=np.float64)

    def __add__(self, other: Summary) -> Summary:
        if not isinstance(other, Summary):
            return NotImplemented
        if not self._is_like(other):
            raise ValueError(
                "the summaries come from different explainers; add summaries of one model, output and background"
            )
        result = Summary(self.names, self.output_names, self.expected_value, self.scale)
        for name in ("n_rows", "n_pair_rows", *ARRAYS[:-1]):
            setattr(result, name, getattr(self, name) + getattr(other, name))
        pairs = [one.pair_magnitudes for one in (self, other) if one.pair_magnitudes.size]
        result.pair_magnitudes = sum(pairs[1:], pairs[0]) if pairs else result.pair_magnitudes
        return result

    def __radd__(self, other: Any) -> Summary:
        """Let ``sum(summaries)`` start from 0."""
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def _is_like(self, other: Summary) -> bool:
        """Whether both have the same features, outputs and expected values."""
        kinds = [(one.names, one.output_names, one.expected_value.tolist(), one.scale) for one in (self, other)]
        return kinds[0] == kinds[1]

    @property
    def mean(self) -> Doubles:
        """Mean SHAP values, (P, k)."""
        return self.total / self._n

    @property
    def mean_abs(self) -> Doubles:
        """Mean magnitudes of the SHAP values, (P, k)."""
        return self.magnitudes / self._n

    @property
    def standard_error(self) -> Doubles:
        """Standard errors of `mean`, for independent rows."""
        variance = np.maximum(self.squares / self._n - self.mean**2, 0)
        return np.asarray(np.sqrt(variance / max(self._n - 1, 1)))

    @property
    def mean_abs_error(self) -> Doubles:
        """Standard errors of `mean_abs`, for independent rows, (P, k)."""
        variance = np.maximum(self.squares / self._n - self.mean_abs**2, 0)
        return np.asarray(np.sqrt(variance / max(self._n - 1, 1)))

    @property
    def share_first(self) -> Doubles:
        """Share of the rows in which each feature has the largest |φ|, (P, k)."""
        return np.asarray(self.leads / self._n)

    @property
    def _n(self) -> int:
        if not self.n_rows:
            raise ValueError("the summary has no rows, so it has no means")
        return self.n_rows

    def quantiles(self, q: Sequence[float] = QUANTILES) -> Doubles:
        """Quantiles of the SHAP values, (len(q), P, k), within 1.6 % of their magnitude.

        Values below 3e-14 of the largest possible margin (of 1 for probabilities) count as 0.

        Parameters
        ----------
        q : sequence of float
            From 0 to 1.

        Raises
        ------
        ValueError
            If a number is outside 0 to 1, or there are no rows.
        """
        wanted = np.asarray(q, np.float64)
        if wanted.ndim != 1 or not ((wanted >= 0) & (wanted <= 1)).all():
            raise ValueError(f"q is {quoted(q)}, expected numbers from 0 to 1")
        ranks = np.ceil(wanted * self._n).clip(1)
        below = self.sketch.cumsum(axis=-1)
        at = np.array([(below < rank).sum(axis=-1) for rank in ranks]).reshape(len(wanted), *self.total.shape)
        return np.asarray(_middles(self.scale)[at])

    def strongest_pairs(self, n: int = 20, output: int = 0) -> list[tuple[str, str, float]]:
        """Pairs by the mean magnitude of their interaction, largest first; empty if `pair_rows` was 0."""
        if not self.n_pair_rows:
            return []
        found = 2 * self.pair_magnitudes[:, :, output] / self.n_pair_rows
        rows, columns = np.triu_indices(len(self.names), 1)
        order = np.argsort(-found[rows, columns], kind="stable")[:n]
        return [(self.names[rows[i]], self.names[columns[i]], float(found[rows[i], columns[i]])) for i in order]

    def rows(self, output: int = 0) -> list[dict[str, Any]]:
        """One dictionary for each feature, by mean |φ|, largest first."""
        quantiles = self.quantiles()[:, :, output]
        figures = {
            name: getattr(self, name)[:, output]
            for name in ("mean", "standard_error", "mean_abs", "mean_abs_error", "share_first")
        }
        figures |= {f"q{100 * q:02.0f}": one for q, one in zip(QUANTILES, quantiles, strict=True)}
        order = np.argsort(-self.mean_abs[:, output], kind="stable")
        return [{"feature": self.names[i]} | {name: float(one[i]) for name, one in figures.items()} for i in order]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a ``.json`` file, or a ``.parquet`` file with a line for each feature and output.

        Parameters
        ----------
        path : path

        Raises
        ------
        ValueError
            If the file name has another suffix.
        OSError
            If the file cannot be written.
        """
        target = check_output(path)
        if target.suffix not in {".json", ".parquet"}:
            raise ValueError(f"{shown(target)} has the suffix {quoted(target.suffix)}, expected .json or .parquet")
        text = json.dumps(self._state())
        with replacing(target) as temporary:
            if target.suffix == ".json":
                temporary.write_text(text + "\n", encoding="utf-8")
                return
            arrow = import_extra("pyarrow", "files", "Parquet files need pyarrow")
            parquet = import_extra("pyarrow.parquet", "files", "Parquet files need pyarrow")
            lines = [
                {"output": name} | row
                for output, name in enumerate(self.output_names)
                for row in (self.rows(output) if self.n_rows else [])
            ]
            parquet.write_table(arrow.Table.from_pylist(lines).replace_schema_metadata({KEY: text}), temporary)

    @classmethod
    @escaped_errors()
    def load(cls, path: str | os.PathLike[str]) -> Summary:
        """Read a file that `save` wrote.

        Parameters
        ----------
        path : path

        Raises
        ------
        ValueError
            If the file holds no summary.
        """
        source = Path(path)
        text = _text_of(source)
        try:
            state = checked_state(json.loads(text), len(text))
        except (*UNREADABLE, MemoryError) as error:
            raise ValueError(f"{shown(source)} holds no summary that Summary.save wrote: {shown(error)}") from error
        result = cls(state["names"], state["output_names"], state["expected_value"], state["scale"])
        result.n_rows, result.n_pair_rows = state["n_rows"], state["n_pair_rows"]
        for name in ARRAYS:
            if name == "sketch":
                result.sketch.reshape(-1)[state["places"]] = state["counts"]
            elif name != "pair_magnitudes" or state["n_pair_rows"]:
                setattr(result, name, state[name])
        return result

    def _state(self) -> dict[str, Any]:
        names = ("names", "output_names", "scale", "n_rows", "n_pair_rows")
        places = np.flatnonzero(self.sketch)
        state = {name: getattr(self, name) for name in names} | {"expected_value": self.expected_value.tolist()}
        state |= {name: getattr(self, name).ravel().tolist() for name in ARRAYS if name != "sketch"}
        return state | {"places": places.tolist(), "counts": self.sketch.ravel()[places].tolist()}


def _text_of(source: Path) -> str:
    """JSON of a file: all of it, or what a Parquet file says beside its table.

    Raises
    ------
    ValueError
        If the Parquet file is damaged, or says nothing.
    """
    if source.suffix != ".parquet":
        return source.read_bytes().decode(errors="replace")
    with open(source, "rb") as file:  # Arrow reads what Python has opened: no mapping of a file that others may change
        parquet = import_extra("pyarrow.parquet", "files", "Parquet files need pyarrow")
        try:
            found = (parquet.read_schema(file, memory_map=False).metadata or {}).get(KEY, b"")
        except (OSError, ValueError) as error:
            raise ValueError(f"{shown(source)} holds no summary that Summary.save wrote: {shown(error)}") from error
    return str(found, errors="replace")


def checked_state(state: Any, n_bytes: int) -> dict[str, Any]:
    """Check what a file says, by its size in bytes, before any of it is used.

    Returns
    -------
    dict
        With arrays of the shapes and types that `Summary` has; `counts` of the bins at the rising `places`.

    Raises
    ------
    ValueError, TypeError, OverflowError
        If it is not what `Summary.save` writes.
    """
    expected = {"names", "output_names", "scale", "n_rows", "n_pair_rows", "expected_value", "places", "counts"}
    expected |= {name for name in ARRAYS if name != "sketch"}
    if not isinstance(state, dict) or state.keys() != expected:
        raise ValueError(f"its entries are not {', '.join(sorted(expected))}")
    for name in ("names", "output_names"):
        if not isinstance(state[name], list) or not all(isinstance(text, str) for text in state[name]):
            raise ValueError(f"{name} is not a list of texts")
    for name in ("n_rows", "n_pair_rows"):
        if type(state[name]) is not int or not 0 <= state[name] < 2**63:
            raise ValueError(f"{name} is not a number of rows")
    n, k, n_rows = len(state["names"]), len(state["output_names"]), state["n_rows"]
    n_bins = n * k * (2 * HALF + 1)
    if 8 * n_bins > LEAST_ROOM + ROOM_OF_A_BYTE * n_bytes:
        raise ValueError(f"{n} features and {k} outputs have more bins than the file speaks of")
    if state["n_pair_rows"] > n_rows:
        raise ValueError("n_pair_rows is more than n_rows")
    if type(state["scale"]) is not float or not 0 < state["scale"] < math.inf or math.frexp(state["scale"])[0] != 0.5:
        raise ValueError("scale is not a power of 2")
    found = {name: state[name] for name in ("names", "output_names", "scale", "n_rows", "n_pair_rows")}
    for name in ("total", "squares", "magnitudes"):
        found[name] = _numbers(state, name, (n, k))
    found["leads"] = _counts(state, "leads").reshape(n, k)
    found["expected_value"] = _numbers(state, "expected_value", (k,))
    shape = (n, n, k) if state["n_pair_rows"] else (0,)
    found["pair_magnitudes"] = _numbers(state, "pair_magnitudes", shape)
    if any((found[name] < 0).any() for name in ("squares", "magnitudes", "pair_magnitudes")):
        raise ValueError("sums of magnitudes are negative")
    places, counts = found["places"], found["counts"] = _counts(state, "places"), _counts(state, "counts")
    if len(places) != len(counts) or (np.diff(places) <= 0).any() or (len(places) and places[-1] >= n_bins):
        raise ValueError("places and counts are not rising numbers of bins, and one count for each")
    rows_of = np.bincount(places // (2 * HALF + 1), counts.astype(np.float64), n * k)
    if (counts < 1).any() or (rows_of != n_rows).any() or (found["leads"] > n_rows).any():
        raise ValueError(f"the counts of a feature are not of {n_rows} rows")
    return found


def _numbers(state: dict[str, Any], name: str, shape: tuple[int, ...]) -> Doubles:
    """Finite numbers of a list."""
    if not isinstance(state[name], list) or not all(type(value) in {int, float} for value in state[name]):
        raise ValueError(f"{name} is not a list of numbers")
    found = np.array(state[name], np.float64)
    if len(found) != math.prod(shape) or not np.isfinite(found).all():
        raise ValueError(f"{name} has {len(found)} entries, expected {math.prod(shape)} finite numbers")
    return found.reshape(shape)


def _counts(state: dict[str, Any], name: str) -> Int64s:
    if not isinstance(state[name], list) or not all(type(value) is int and value >= 0 for value in state[name]):
        raise ValueError(f"{name} is not a list of whole numbers of at least 0")
    return np.array(state[name], np.int64)


def _top(scale: float) -> int:
    """Step of the scale: a float's exponent, and the first five bits of its fraction."""
    return int(np.float32(scale).view(np.int32)) >> 18


def _middles(scale: float) -> Doubles:
    """List the number in the middle of each bin."""
    bits = (_top(scale) - HALF + np.arange(1, HALF + 1, dtype=np.int32)) << 18
    middle = (bits + (1 << 17)).view(np.float32).astype(np.float64)
    return np.concatenate([-middle[::-1], [0.0], middle])


def scale_of(explainer: Any) -> float:
    """Power of 2 above what values can be; it is the same for all batches of an explainer."""
    largest = explainer.game.forest.largest_margin if explainer.settings.output == "margin" else 1.0
    return 2.0 ** math.ceil(math.log2(2 * largest)) if 0 < largest < 2.0**60 else 2.0**20


def summarised(explainer: Any, result: Summary, batches: Any, pair_rows: int) -> Summary:
    """Add the values of all batches."""
    for rows in batches_of(batches):
        values = np.asarray(explainer.shap_values(rows))
        result._add_values(values, explainer.settings.n_jobs)
        if pair_rows:
            some = rows[:: max(1, length_of(rows) // pair_rows)][:pair_rows]
            result._add_interactions(np.asarray(explainer.shap_interaction_values(some)))
    return result
