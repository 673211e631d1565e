"""Data sets that ship with glasswood, for examples and trials."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from glasswood.base.extras import import_extra

if TYPE_CHECKING:
    import pandas

DATA = Path(__file__).parent / "data"


def california() -> tuple[pandas.DataFrame, pandas.Series]:
    """Load California housing: districts of California, and their median house value.

    Returns
    -------
    X : pandas.DataFrame
        20,640 rows and 8 numbers: median income, age, rooms, bedrooms, population and occupants of the houses, latitude
        and longitude.
    y : pandas.Series
        ``MedHouseVal``, in $100,000.

    References
    ----------
    Pace and Barry, "Sparse spatial autoregressions", Statistics and Probability Letters 33 (1997).

    Examples
    --------
    >>> X, y = glasswood.datasets.california()
    >>> X.shape
    (20640, 8)
    """
    return _read("california_housing.parquet", "MedHouseVal")


def adult() -> tuple[pandas.DataFrame, pandas.Series]:
    """Load Adult: people in the census of 1994, and whether they earned more than $50,000 a year.

    Returns
    -------
    X : pandas.DataFrame
        48,842 rows, 6 numbers and 8 columns of text.
    y : pandas.Series
        ``income``: "<=50K" or ">50K".

    References
    ----------
    Becker and Kohavi, "Adult", UCI Machine Learning Repository (1996), https://doi.org/10.24432/C5XW20, CC BY 4.0.

    Examples
    --------
    >>> X, y = glasswood.datasets.adult()
    >>> sorted(y.unique())
    ['<=50K', '>50K']
    """
    return _read("adult.parquet", "income")


def _read(name: str, target: str) -> tuple[Any, Any]:
    pandas = import_extra("pandas", "demo", "data sets are frames of pandas")
    X = pandas.read_parquet(DATA / name)
    return X, X.pop(target)
