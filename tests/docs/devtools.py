"""Pages in Chromium, offline, through its DevTools: what a page loads, what a script in it says.

with Browser() as browser:
    page = browser.open(folder / "index.html", dark=True)
    page.says("document.title"), page.asked, page.picture(Path("seen.png"))
"""

import base64
import json
import re
import subprocess
import tempfile
import time
from pathlib import Path

import websocket
from support.browser import OFFLINE, find


class Socket:
    """A connection to the browser or to one of its pages; what happens is kept in `events`."""

    def __init__(self, address: str):
        self.socket, self.count, self.events = websocket.create_connection(address, 60), 0, []

    def call(self, method: str, **options) -> dict:
        """What DevTools answers."""
        self.count += 1
        self.socket.send(json.dumps({"id": self.count, "method": method, "params": options}))
        while (answer := json.loads(self.socket.recv())).get("id") != self.count:
            self.events.append(answer)
        return answer.get("result", {})


class Page(Socket):
    """A page that has been loaded."""

    def says(self, script: str):
        """The value of an expression in the page."""
        found = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            about = {"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": ord("\t")}
            self.call("Input.dispatchKeyEvent", **about)

    def picture(self, path: Path) -> None:
        """Save what is seen."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def happened(self, kind: str) -> list[dict]:
        self.says("0")  # all that is on its way arrives before the answer
        return [event["params"] for event in self.events if event["method"] == kind]

    @property
    def asked(self) -> list[str]:
        """The addresses that the page has asked for."""
        return [about["request"]["url"] for about in self.happened("Network.requestWillBeSent")]

    @property
    def errors(self) -> list[str]:
        """What the page complains about in the console."""
        thrown = self.happened("Runtime.exceptionThrown")
        logged = [about["entry"] for about in self.happened("Log.entryAdded")]
        return [about["exceptionDetails"]["exception"]["description"] for about in thrown] + [
            entry["text"] for entry in logged if entry["level"] == "error"
        ]


class Browser:
    """A Chromium without a network."""

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        words = ["--remote-debugging-port=0", "--remote-allow-origins=*"]
        self.program = subprocess.Popen(
            [find(), *OFFLINE, *words, f"--user-data-dir={self.folder.name}"],
            stderr=subprocess.PIPE,
            text=True,
        )
        told = next(line for line in self.program.stderr if "DevTools listening" in line)
        self.socket = Socket(told.split()[-1])
        self.home = re.match(r"ws://[^/]+", told.split()[-1])[0]
        return self

    def open(self, path: Path, query="", *, dark=False, width=1280, height=900, wait=0.3) -> Page:
        """Load a file; `wait` seconds more for what its scripts do."""
        target = self.socket.call("Target.createTarget", url="about:blank")["targetId"]
        page = Page(f"{self.home}/devtools/page/{target}")
        for name in ("Network", "Page", "Runtime", "Log"):
            page.call(f"{name}.enable")
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        page.call("Emulation.setEmulatedMedia", features=[scheme])
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        page.call("Emulation.setDeviceMetricsOverride", **size)
        page.events.clear()
        page.call("Page.navigate", url=Path(path).resolve().as_uri() + query)
        began = time.monotonic()
        while not page.happened("Page.loadEventFired"):
            assert time.monotonic() - began < 60, f"{path} is not loaded"
            time.sleep(0.05)
        time.sleep(wait)
        return page

    def __exit__(self, *_) -> None:
        self.program.terminate()
        self.program.wait(30)
        self.folder.cleanup()
