"""One offline HTML file that shows a model and its explanations."""

from glasswood.display.report.build import report

__all__ = ["report"]
