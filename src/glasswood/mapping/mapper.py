"""Functions from batches of rows to batches of results."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from glasswood.base.config import chosen
from glasswood.base.escapes import quoted, shown
from glasswood.base.extras import import_arrow
from glasswood.base.typing import Array
from glasswood.base.wording import spelled
from glasswood.inputs.matching import listed
from glasswood.mapping.carried import carry, opened
from glasswood.mapping.frames import as_frame, check_columns, features_of, result
from glasswood.model.ensemble import TreeEnsemble
from glasswood.model.facts import column_names

if TYPE_CHECKING:
    from glasswood.mapping.carried import Carried

SPARK_TYPES = {
    "float": "float",
    "double": "double",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "bool": "boolean",
    "string": "string",
    "large_string": "string",
    "binary": "binary",
    "date32[day]": "date",
}


def threads_of_workers() -> int:
    """Threads of a mapper's calls: 1 because engines run a task a core, unless the options give a number."""
    n_jobs: int = chosen("n_jobs", 1)
    return n_jobs


class Mapper(ABC):
    """A function of batches that any engine can send to its workers, without importing the engine.

    `Forest.mapper` and `Explainer.mapper` make one. It can be pickled. The model travels in it or, with ``path=``, as
    the path of a file. Each process opens the model once, for all its batches and threads.

    Notes
    -----
    A batch may be empty, and it may have more columns than the model has features. Results depend on the row alone, so
    any split into batches gives the same bits, and so does a task that an engine repeats.
    """

    def __init__(
        self, live: Any, path: str | os.PathLike[str] | None, inputs: Sequence[str] | None, columns: Any
    ) -> None:
        self._live = live
        self._model = None if path is None else carry(self._content(), path)
        self._inputs = None if inputs is None else list(inputs)
        self._kept, self._types = _kept(columns)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_live": None, "_model": self._model or carry(self._content())}

    @abstractmethod
    def _content(self) -> bytes:
        """Return the model as a `.glasswood` file has it."""

    @abstractmethod
    def _open(self, source: bytes | str) -> Any:
        """Make what computes, which has the forest as `forest`."""

    def _forest(self, engine: Any) -> TreeEnsemble:
        """Trees whose features the batches' columns are."""
        forest: TreeEnsemble = engine.forest
        return forest

    @property
    @abstractmethod
    def _settings(self) -> tuple[object, ...]:
        """The settings that decide how the model is opened."""

    @abstractmethod
    def _compute(self, engine: Any, rows: Any) -> dict[str, Array]:
        """Results by the names of their columns."""

    @abstractmethod
    def _of_array(self, engine: Any, rows: Array) -> Array:
        """Results as an array."""

    @property
    def _engine(self) -> Any:
        """The forest or explainer that computes; in the process that made the mapper, the original one."""
        if self._live is not None:
            return self._live
        return opened(cast("Carried", self._model), (type(self), *self._settings), self._open)

    def __call__(self, batch: Any) -> Any:
        """Map a batch.

        Parameters
        ----------
        batch : pyarrow RecordBatch or Table, pandas or polars frame, NumPy array (n_rows, n_features)

        Returns
        -------
        of the batch's type
            One row for each row of the batch, in the same order and with the same index: the kept columns, then the
            results. For an array, the array that the model returns.

        Raises
        ------
        ValueError
            If columns are missing or repeated.
        TypeError
            If `batch` has another type, or a column does not hold numbers.
        RuntimeError
            If another version of glasswood made the mapper.
        FileNotFoundError
            If the model is a file that this process cannot see.
        """
        engine = self._engine
        if isinstance(batch, np.ndarray):
            return self._of_array(engine, batch)
        frame = as_frame(batch)
        inputs = input_columns(frame.names, self._forest(engine), self._inputs, "the batch", "inputs=")
        check_columns(frame.names, [*inputs, *self._kept], "the batch")
        rows = features_of(frame, inputs, column_names(self._forest(engine)))
        return result(batch, self._kept, self._types, self._compute(engine, rows))

    def iter(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Map batches one by one, as Spark's `mapInArrow` and `mapInPandas` require."""
        for batch in batches:
            yield self(batch)

    @property
    def schema(self) -> Any:
        """Arrow schema of the results.

        Raises
        ------
        ValueError
            If columns are kept whose types were not given.
        """
        return self(self._no_rows()).schema

    @property
    def meta(self) -> Any:
        """Results of no rows as a pandas frame, as Dask requires; raises as `schema`."""
        return self(self._no_rows().to_pandas())

    @property
    def ddl(self) -> str:
        """`schema` in the words of Spark.

        Raises
        ------
        ValueError
            As `schema`, and for types of kept columns that have other names there.
        """
        columns = []
        for field in self.schema:
            if (kind := str(field.type)) not in SPARK_TYPES:
                raise ValueError(
                    f"column {quoted(field.name)} is {shown(kind)}, which has no name here; give Spark a schema instead"
                )
            escaped = field.name.replace("`", "``")
            columns.append(f"`{escaped}` {SPARK_TYPES[kind]}")
        return ", ".join(columns)

    def _no_rows(self) -> Any:
        """Arrow table without rows, of the columns that are read."""
        if untyped := [name for name in self._kept if name not in self._types]:
            raise ValueError(
                f"the types of the columns {listed(untyped)} are not known here; pass columns= as a pyarrow.schema"
            )
        pyarrow, forest = import_arrow(), self._forest(self._engine)
        names = self._inputs or column_names(forest)
        types = dict.fromkeys(names, pyarrow.float64()) | self._types
        return pyarrow.schema(types.items()).empty_table()


def input_columns(
    names: Sequence[str],
    forest: TreeEnsemble,
    wanted: Sequence[str] | None,
    where: str,
    option: str,
    hint: str = "",
) -> list[str]:
    """Columns of the data that are the model's features, in the model's order.

    Raises
    ------
    ValueError
        If they cannot be told: `where` says of what, `option` how they are named, `hint` what else may be wrong.
    """
    columns = column_names(forest)
    are_named = (forest.feature_names if forest.transform is None else forest.transform.names) is not None
    if wanted is not None:
        wanted = spelled(wanted, names)
        if len(wanted) != len(columns):
            raise ValueError(
                f"{option} names {len(wanted)} columns, the model has {len(columns)} features; name them all"
            )
        return list(wanted)
    if are_named and not set(columns).isdisjoint(spelled(names, columns)):
        return spelled(columns, names)
    if not are_named and len(names) == len(columns):
        if _are_values(names):
            raise ValueError(
                f"{shown(where)} has numbers where the names of its columns are expected ({listed(names)}): "
                f"is that its first row? Put a line of names before it, or say by {option} that these are the names"
            )
        return list(names)
    known = f" ({listed(columns)})" if are_named else ""
    raise ValueError(
        f"{shown(where)} has the {len(names)} columns {listed(names)}, none named like one of the model's "
        f"{len(columns)} features{known}; name the columns to use by {option}, in the model's order{hint}"
    )


def _are_values(names: Sequence[str]) -> bool:
    """Whether names are numbers that do not count up, as a first row is."""
    try:
        numbers = [float(name) for name in names]
    except ValueError:
        return False
    return numbers != [numbers[0] + i for i in range(len(numbers))] if numbers else False


def _kept(columns: Any) -> tuple[list[str], dict[str, Any]]:
    """Names of the columns to keep, and their types if they are given."""
    if isinstance(columns, str):
        raise TypeError(f"columns is the text {quoted(columns)}, expected a list of names; pass [{quoted(columns)}]")
    if hasattr(columns, "names") and hasattr(columns, "types"):
        columns = dict(zip(columns.names, columns.types, strict=True))
    return list(columns), dict(columns) if isinstance(columns, Mapping) else {}
