project = "statewise"
author = "The statewise authors"
extensions = ["myst_parser", "sphinx-mathjax-offline", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["dollarmath"]
# links to headings of generated pages
myst_heading_anchors = 2
html_theme = "furo"
html_title = "statewise"
html_static_path = ["_static"]
html_css_files = ["narrow.css"]
exclude_patterns = ["_build"]
autodoc_typehints = "none"
# names in single backticks are code
default_role = "literal"


def keep_bars(app, what, name, obj, options, lines):
    """|h| is a norm, and no substitution of reStructuredText."""
    lines[:] = [line.replace("|", r"\|") for line in lines]


def setup(app):
    app.connect("autodoc-process-docstring", keep_bars)
