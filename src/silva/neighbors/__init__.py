"""Training rows by leaf: similar rows, distributions, intervals, influence, leaves as features."""

from silva.neighbors.neighbors import Neighbors

__all__ = ["LeafEncoder", "Neighbors"]


def __getattr__(name: str) -> object:
    if name != "LeafEncoder":
        raise AttributeError(f"module 'silva.neighbors' has no attribute {name!r}")
    try:
        from silva.neighbors.encoder import LeafEncoder
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "sklearn":
            raise
        raise ImportError("silva.LeafEncoder needs scikit-learn: pip install 'silva[sklearn]'") from error
    return LeafEncoder
