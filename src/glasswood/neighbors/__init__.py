"""Training rows by leaf: similar rows, distributions, intervals, influence, leaves as features."""

from glasswood.base.escapes import quoted
from glasswood.neighbors.neighbors import Neighbors

__all__ = ["LeafEncoder", "Neighbors"]


def __getattr__(name: str) -> object:
    if name != "LeafEncoder":
        raise AttributeError(f"module 'glasswood.neighbors' has no attribute {quoted(name)}")
    try:
        from glasswood.neighbors.encoder import LeafEncoder
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "sklearn":
            raise
        raise ImportError("glasswood.LeafEncoder needs scikit-learn: pip install 'glasswood[sklearn]'") from error
    return LeafEncoder
