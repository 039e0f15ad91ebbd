"""Build the site: `python -m docs`, from the root of the checkout."""

import argparse
import itertools
import os
import re
import shutil
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from sphinx.cmd.build import main as sphinx

from . import ledger, slides, staging


def build(output: Path, executed: Path | None = None, pages=staging.PAGES) -> int:
    """Write the site to `output`; return how many pages it has. Raises where one is not sound."""
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(1) as other:
        source, html = Path(folder, "source"), Path(folder, "html")
        lessons = staging.stage(source, pages, executed)
        tables = other.submit(ledger.drawn, lessons)
        words = ["-q", "-W", "--keep-going", "-c", str(Path(__file__).parent)]
        if staging.REFERENCE not in itertools.chain(*pages.values()):
            words += ["-D", "extensions=myst_nb"]
        if sphinx([*words, str(source), str(html)]):
            raise SystemExit("The site has mistakes, named above; it was not written.")
        slides.write(html / "slides", [source / name for name in lessons])
        ledger.fill(html / "docs" / "results.html", tables.result())
        shutil.rmtree(html / ".doctrees")
        for page in html.rglob("*.html"):
            page.write_text(mended(page.read_text(encoding="utf-8")), encoding="utf-8")
        if (output / "searchindex.js").exists():
            shutil.rmtree(output)
        shutil.copytree(html, output, dirs_exist_ok=True)
    return len([page for page in output.rglob("*.html") if "_static" not in page.parts])


def mended(text: str) -> str:
    """A page for readers by ear: buttons are called what stands on them, empty cells no heading."""
    text = re.sub(r' aria-label="(Search|Toggle hidden content)"', "", text)
    return re.sub(r"<th[^>]*>(<p></p>)?</th>", "<td></td>", text)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m docs", description=__doc__)
    parser.add_argument("--executed", type=Path, help="notebooks that have just been executed")
    parser.add_argument("--output", type=Path, default=staging.ROOT / "build" / "site")
    options, began = parser.parse_args(), time.monotonic()
    count = build(options.output, options.executed)
    page = os.path.relpath(options.output / "index.html")
    print(f"{count} pages, {time.monotonic() - began:.0f} s; open {page}")


if __name__ == "__main__":
    main()
