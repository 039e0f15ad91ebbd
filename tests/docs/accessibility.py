"""The built site against axe-core's rules, in light and dark; ends with 1 where one is broken.

python -m docs
npm install --no-save axe-core      (not part of ./run tests)
python tests/docs/accessibility.py build/site node_modules/axe-core/axe.min.js
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from devtools import Browser, Page

REFERENCE = ("fedtutor.html", "fedtutor.rounds.html", "fedtutor.methods.fccl.html")  # alike


def broken(page: Page) -> list[str]:
    """What a page breaks: rule, how often, and the first place."""
    return page.says(
        "axe.run({resultTypes: ['violations']}).then(({violations}) => violations.map("
        "({id, help, nodes}) => `${id} (${help}), ${nodes.length}: ` +"
        "nodes[0].html.slice(0, 160)))"
    )


def main(folder: Path, axe: Path) -> int:
    pages = [
        path
        for path in sorted(folder.rglob("*.html"))
        if "_static" not in path.parts and ("reference" not in path.parts or path.name in REFERENCE)
    ]
    count = 0
    with Browser() as browser:
        for path in pages:
            for dark in (False, True):
                page = browser.open(path, dark=dark)
                page.says(axe.read_text(encoding="utf-8"))
                for line in broken(page):
                    count += 1
                    name = path.relative_to(folder).as_posix()
                    print(f"{'dark' if dark else 'light'} {name}: {line}")
    print(f"{len(pages)} pages, twice: {count} broken rules")
    return bool(count)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
