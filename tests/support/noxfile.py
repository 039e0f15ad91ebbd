"""What noxfile.py names, without nox: its constants, and the versions that requirements pin."""

import ast
import re

from fedtutor.engine.files import ROOT

TEXT = (ROOT / "noxfile.py").read_text(encoding="utf-8")
CONSTANTS = {
    node.targets[0].id: ast.literal_eval(node.value)
    for node in ast.parse(TEXT).body
    if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "").isupper()
}
PYTHONS, EARLIEST = CONSTANTS["PYTHONS"], CONSTANTS["EARLIEST"]
REQUIRED = (ROOT / "requirements.txt").read_text(encoding="utf-8")
PINNED = dict(re.findall(r"^(torch\w*)==(\S+)$", REQUIRED, flags=re.M))
