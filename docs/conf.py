"""Settings of the documentation site; `make docs` builds it offline, with warnings as errors."""

import sys
from importlib import metadata
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from site_pages import write_inventories, write_pages  # noqa: E402

project = "bci-stream"
author = "the bci-stream maintainers"
project_copyright = "2026, the bci-stream maintainers"
release = version = metadata.version("bci-stream")

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx_click",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "gallery/README.txt"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
suppress_warnings = ["config.cache"]  # the gallery's settings hold a function

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False

write_pages(HERE / "reference")

# Inventories are made from docs/inventories/*.txt, so that a build needs no network.
intersphinx_mapping = write_inventories(HERE / "inventories", HERE / "_build" / "inventories")

sphinx_gallery_conf = {
    "examples_dirs": ["gallery"],
    "gallery_dirs": ["auto_gallery"],
    "filename_pattern": r"plot_",
    "within_subsection_order": "FileNameSortKey",
    "remove_config_comments": True,
    "show_memory": False,
    "download_all_examples": False,
    "min_reported_time": 1000,
    "abort_on_example_error": True,
}

html_theme = "pydata_sphinx_theme"
html_title = "bci-stream"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {
    "show_prev_next": False,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 7,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "logo": {"text": "bci-stream"},
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": []}
html_show_sourcelink = False
