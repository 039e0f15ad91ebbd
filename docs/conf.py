"""What Sphinx makes of the pages that `python -m docs` has put into build/docs-source.

Build the site with `python -m docs`, from the root of the checkout: docs/staging.py says which
pages there are, and docs/__main__.py calls Sphinx with this file.
"""

from astroid.exceptions import AstroidImportError
from astroid.manager import AstroidManager
from docutils import nodes
from sphinx.util import logging

from docs.mathml import LatexError, mathml

project, language, smartquotes = "fedtutor", "en", False
extensions = ["myst_nb", "autodoc2"]

# Lessons and pages of text
nb_execution_mode = "off"
nb_code_prompt_show = "Show the code"
nb_code_prompt_hide = "Hide the code"
nb_render_markdown_format = "myst"
nb_ipywidgets_js = {}  # a slider is the picture or the HTML saved beside it
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 4
html_math_renderer = "mathml"

# The reference
autodoc2_packages = ["fedtutor"]  # put beside the pages by docs/staging.py
autodoc2_output_dir = "reference"
autodoc2_index_template = None
autodoc2_render_plugin = "docs.reference.Reference"
autodoc2_hidden_objects = ["private", "dunder", "inherited"]
autodoc2_sort_names = True
add_module_names, python_use_unqualified_type_names = False, True
toc_object_entries = False

# How it looks
html_theme = "sphinx_book_theme"
html_title = "fedtutor"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = html_show_copyright = html_show_sphinx = False
html_show_search_summary = False  # it would fetch a page, which a page from a disk may not
html_sidebars = {"**": ["search-button-field", "sbt-sidebar-nav"]}
html_theme_options = {
    "use_download_button": False,
    "use_fullscreen_button": False,
    "home_page_in_toc": True,
    "navbar_persistent": [],
    "navigation_with_keys": False,
    "collapse_navbar": True,
    "max_navbar_depth": 1,
    "show_toc_level": 2,
}


def from_here(manager, name, *more, _known=AstroidManager.ast_from_module_name, **options):
    """Autodoc2 reads this package alone: what it inherits from PyTorch would take half a minute."""
    if (name or "").partition(".")[0] not in ("fedtutor", "builtins", "dataclasses", "typing"):
        raise AstroidImportError(f"{name} is not read")
    return _known(manager, name, *more, **options)


AstroidManager.ast_from_module_name = from_here


def drawn(block: bool):
    """What writes a formula into the page."""

    def visit(translator, node):
        try:
            translator.body.append(mathml(node.astext(), block=block))
        except LatexError as error:
            logging.getLogger(__name__).warning("no formula: %s", error, location=node)
        raise nodes.SkipNode

    return visit, None


def setup(app):
    app.add_html_math_renderer("mathml", inline_renderers=drawn(False), block_renderers=drawn(True))
