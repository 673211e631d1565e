"""Predict, explain and grow on the frames, arrays and futures of Dask, where their parts are."""

from glasswood.dask.fitting import fit
from glasswood.dask.mapping import explain, predict

__all__ = ["explain", "fit", "predict"]
