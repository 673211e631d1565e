"""How Sphinx builds the documentation (`make docs`)."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
os.environ.setdefault("MPLBACKEND", "Agg")

from sphinx_gallery.scrapers import matplotlib_scraper

import glasswood

project, author, copyright = "glasswood", "the glasswood developers", "the glasswood developers"  # noqa: A001
version = release = glasswood.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "templates"]
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

site = os.environ.get("GLASSWOOD_SITE", "")
"""Address of the published pages; with it, they have a sitemap and link to the references of other projects."""

version_folder = os.environ.get("GLASSWOOD_VERSION", "")
"""Folder of a release's pages, such as v0.1.0; those of the main branch are at the site's top."""

if site:
    html_baseurl = f"{site}{version_folder}/" if version_folder else site
    sitemap_url_scheme = "{link}"
    extensions += ["sphinx.ext.intersphinx", "sphinx_sitemap"]
    intersphinx_mapping = {
        "python": ("https://docs.python.org/3/", None),
        "numpy": ("https://numpy.org/doc/stable/", None),
        "sklearn": ("https://scikit-learn.org/stable/", None),
        "shap": ("https://shap.readthedocs.io/en/latest/", None),
    }

suppress_warnings = ["myst.xref_missing", "config.cache"]
"""Links to files of the repository that are no pages stay as they are (`linked` below checks that they exist)."""

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4

numpydoc_show_class_members = False
numpydoc_validation_checks = set()
autodoc_typehints = "none"
autodoc_inherit_docstrings = False
autosummary_generate = True
templates_path = ["templates"]
_GROWN = "fit, predict, apply, rules_, feature_importances_"
autosummary_context = {
    "members_of": {
        "Forest": "predict, predictor, encoder, mapper, tune, with_means, with_covers, save, output_names, "
        "trees_to_dataframe",
        "Explainer": "",
        "Neighbors": "",
        "AdditiveClassifier": "fit, predict, predict_proba, decision_function, plot, feature_importances_",
        "AdditiveRegressor": "fit, predict, predict_interval, plot, feature_importances_",
        "ModelTreeRegressor": f"{_GROWN}, predict_interval, plot",
        "ModelTreeClassifier": f"{_GROWN}, predict_proba, decision_function, plot",
        "ModelTreeEnsembleClassifier": "fit, predict, predict_proba, decision_function, feature_importances_",
        "ModelTreeEnsembleRegressor": "fit, predict, predict_interval, feature_importances_",
    }
}
"""Members of classes on their pages; a class that is not here has its own text alone."""

repository = os.environ.get("GLASSWOOD_REPOSITORY", "")
"""Address of the repository, for a link at the top; none without it."""


def whole_pictures(*args: Any, **settings: Any) -> Any:
    """Save pictures with all their labels, of which shap's plots have some outside of the figure."""
    return matplotlib_scraper(*args, bbox_inches="tight", **settings)


sphinx_gallery_conf = {
    "image_scrapers": ("conf.whole_pictures",),
    "examples_dirs": ["../examples"],
    "gallery_dirs": ["tutorials"],
    "filename_pattern": r"\.py$",
    "within_subsection_order": "ExampleTitleSortKey",
    "remove_config_comments": True,
    "show_signature": False,
    "show_memory": False,
    "min_reported_time": 10**6,
    "download_all_examples": False,
    "abort_on_example_error": True,
    "capture_repr": ("_repr_html_",),  # not the path of a file on this machine
    "matplotlib_animations": False,
    "reset_modules": ("matplotlib",),
}


def setup(app: Any) -> None:
    """Put the reports that tutorials write beside their pages, which show them, and list the pages for machines."""
    app.connect("build-finished", copy_reports)
    app.connect("build-finished", list_pages)


def list_pages(app: Any, error: Exception | None) -> None:
    """Write llms.txt: the title and address of each page."""
    if error:
        return
    base = app.config.html_baseurl or ""
    titles = {name: node.astext() for name, node in app.env.titles.items() if not name.startswith("api/")}
    lines = [f"- [{title}]({base}{name}.html)" for name, title in sorted(titles.items()) if name != "index"]
    about = "> Grows, evaluates and explains decision trees on parallel hardware, from Python."
    text = "\n".join(["# glasswood", "", about, "", "## Pages", "", *lines, ""])
    Path(app.outdir, "llms.txt").write_text(text, encoding="utf-8")


def copy_reports(app: Any, error: Exception | None) -> None:
    """Copy what the examples have written."""
    for report in () if error else Path(app.confdir, "../examples").glob("*.html"):
        shutil.copy2(report, Path(app.outdir, "tutorials"))


html_theme = "pydata_sphinx_theme"
html_title = "glasswood"
html_sidebars = {"install": [], "reference": [], "faq": []}
html_theme_options = {
    "show_toc_level": 2,
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "navbar_end": ["theme-switcher"],
}
if site:  # tools/publish_site.py writes the list, which browsers do not read from files
    html_theme_options["navbar_end"] = ["version-switcher", *html_theme_options["navbar_end"]]
    html_theme_options["switcher"] = {"json_url": f"{site}versions.json", "version_match": version_folder or "main"}
    html_theme_options["check_switcher"] = False
html_show_sourcelink = False
html_static_path = ["static"]
html_css_files = ["pages.css"]
html_logo = os.environ.get("GLASSWOOD_LOGO") or None
if repository:
    html_theme_options["navbar_end"] = [*html_theme_options["navbar_end"], "navbar-icon-links"]
    html_theme_options["icon_links"] = [{"name": "Repository", "url": repository, "icon": "fa-solid fa-code-branch"}]
