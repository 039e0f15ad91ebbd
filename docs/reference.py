"""How autodoc2 writes a module of the reference: what it is about, then every public name."""

import json
import re

from autodoc2.render.myst_ import MystRenderer


class Reference(MystRenderer):
    """Autodoc2's own pages without a table of contents in each."""

    def show_module_summary(self, item):
        return True  # without it no name is shown

    def generate_summary(self, objects, alias=None):
        return ()

    def render_package(self, item):
        for line in super().render_package(item):
            if not line.startswith("### "):
                yield re.sub("^## (Module|Package) Contents", "## Names", line)

    def render_data(self, item):
        """A constant, whose value stands in one line, as MyST wants it."""
        text = "\n".join(super().render_data(item))
        value = re.compile(r"(?<=^:value: )>\n   (.*)", re.MULTILINE)
        return value.sub(lambda found: json.dumps(found[1]), text).split("\n")
