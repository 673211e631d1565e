"""One offline HTML file that shows a model and its explanations."""

from silva.display.report.build import report

__all__ = ["report"]
