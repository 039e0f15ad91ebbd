"""Look at a page with Chromium, offline: what it measures, and what it looks like.

    python tests/support/browser.py build/00_start_here.html 1280 [picture.png]

prints what `measure` found. The page itself has no script; a copy of it gets one, which writes
its measurements into the document that Chromium then prints. The copy lies in a frame, because a
window of Chromium cannot be as narrow as a telephone.
"""

import html
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
OFFLINE = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars", "--proxy-server=127.0.0.1:9", "--proxy-bypass-list=<-loopback>",
]  # fmt: skip
SCRIPT = """<script>
addEventListener("load", () => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const box = (element) => element.getBoundingClientRect();
  const inside = (element) => {  // in a box that scrolls by itself
    for (let e = element.parentElement; e && e !== document.body; e = e.parentElement)
      if (["auto", "scroll", "hidden"].includes(getComputedStyle(e).overflowX)) return true;
    return false;
  };
  const page = document.documentElement;
  parent.document.documentElement.dataset.measured = JSON.stringify({
    width: innerWidth, content: page.scrollWidth, height: page.scrollHeight,
    wide: all("main *").filter((e) => box(e).right > innerWidth + 1 && !inside(e)).length,
    images: all("img").map((e) => [e.complete && e.naturalWidth > 0, box(e).width, box(e).height]),
    math: all("math").map((e) => [box(e).width, box(e).height]),
    sums: all("math[display=block] :is(munder, munderover)").filter((e) =>
      box(e.children[1]).top >= box(e.children[0]).bottom - 2).length,
    folded: all("main details:not([open]) > :not(summary)")
      .filter((e) => e.checkVisibility()).length,
    loaded: performance.getEntriesByType("resource").map((e) => e.name)
      .filter((name) => !name.startsWith("data:")),
  });
});
</script>"""


def find() -> str | None:
    """The path of a Chromium, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def measure(page: Path, *, width: int, height: int = 900, picture: Path | None = None) -> dict:
    """Load `page` in a window of `width` x `height`; return what SCRIPT says, in CSS pixels."""
    text = Path(page).read_text(encoding="utf-8").replace("</body>", SCRIPT + "</body>")
    frame = (
        f'<!DOCTYPE html><meta charset="utf-8"><style>body {{ margin: 0 }}</style>'
        f'<iframe style="border: 0; display: block" width="{width}" height="{height}" '
        f'srcdoc="{html.escape(text)}"></iframe>'
    )
    with tempfile.TemporaryDirectory() as folder:
        framed = Path(folder) / "framed.html"
        framed.write_text(frame, encoding="utf-8")
        command = [find(), *OFFLINE, f"--user-data-dir={folder}/profile",
                   f"--window-size={width},{height}"]  # fmt: skip

        def look(job: str) -> str:
            return subprocess.run([*command, job, framed.as_uri()], check=True, timeout=120,
                                  capture_output=True, text=True).stdout  # fmt: skip

        printed = look("--dump-dom")
        if picture is not None:
            look(f"--screenshot={Path(picture).resolve()}")
    found = re.search(r'data-measured="([^"]*)"', printed)
    return json.loads(html.unescape(found[1]))


if __name__ == "__main__":
    print(json.dumps(measure(
        Path(sys.argv[1]), width=int(sys.argv[2]), height=int(sys.argv[4]) if sys.argv[4:] else 900,
        picture=Path(sys.argv[3]) if sys.argv[3:] else None,
    ), indent=1))  # fmt: skip
