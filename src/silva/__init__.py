"""silva grows, evaluates and explains decision trees on parallel hardware."""

from silva.forest import Forest

__version__ = "0.1.0.dev0"

__all__ = ["Forest", "__version__"]
