project = "statewise"
author = "The statewise authors"
extensions = ["myst_parser", "sphinx-mathjax-offline", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["dollarmath"]
html_theme = "furo"
html_title = "statewise"
exclude_patterns = ["_build"]
autodoc_typehints = "none"
