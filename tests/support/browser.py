"""Where Chromium is, and how it is called without a network."""

import shutil

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
OFFLINE = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars", "--proxy-server=127.0.0.1:9", "--proxy-bypass-list=<-loopback>",
]  # fmt: skip


def find() -> str | None:
    """The path of a Chromium, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)
