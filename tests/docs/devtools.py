"""A page in Chromium, offline, through its DevTools: what it loads, what a script in it says.

with Page(folder / "index.html", dark=True) as page:
    page.says("document.title"), page.asked, page.picture(Path("seen.png"))
"""

import base64
import json
import re
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import websocket
from support.browser import OFFLINE, find


class Page:
    """A page that has been loaded; `asked` are the addresses that it asked for."""

    def __init__(self, path: Path, query="", *, dark=False, width=1280, height=900, wait=1.0):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        words = ["--remote-debugging-port=0", "--remote-allow-origins=*"]
        self.browser = subprocess.Popen(
            [find(), *OFFLINE, *words, f"--user-data-dir={self.folder.name}", "about:blank"],
            stderr=subprocess.PIPE,
            text=True,
        )
        opened = next(line for line in self.browser.stderr if "DevTools listening" in line)
        whole = websocket.create_connection(opened.split()[-1], timeout=60)
        whole.send(json.dumps({"id": 1, "method": "Target.getTargets"}))
        targets = json.loads(whole.recv())["result"]["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        whole.close()
        address = re.match(r"ws://[^/]+", opened.split()[-1])[0]
        self.socket = websocket.create_connection(f"{address}/devtools/page/{page}", timeout=60)
        self.count, self.events = 0, []
        for name in ("Network", "Page", "Runtime", "Log"):
            self.call(f"{name}.enable")
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        self.call("Page.navigate", url=Path(path).resolve().as_uri() + query)
        for _ in range(300):
            self.call("Runtime.evaluate", expression="0")
            if any(event["method"] == "Page.loadEventFired" for event in self.events):
                break
            time.sleep(0.1)
        time.sleep(wait)

    def call(self, method: str, **options) -> dict:
        """What DevTools answers; what happens meanwhile is kept in `events`."""
        self.count += 1
        self.socket.send(json.dumps({"id": self.count, "method": method, "params": options}))
        while (answer := json.loads(self.socket.recv())).get("id") != self.count:
            self.events.append(answer)
        return answer.get("result", {})

    def says(self, script: str):
        """The value of an expression in the page."""
        found = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in found:
            raise AssertionError(found["exceptionDetails"])
        return found["result"].get("value")

    def press(self, key: str) -> None:
        """Press a key, such as Tab."""
        code = {"Tab": 9, "Enter": 13, "ArrowRight": 39}[key]
        for kind in ("keyDown", "keyUp"):
            about = {"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code}
            self.call("Input.dispatchKeyEvent", **about)

    def picture(self, path: Path) -> None:
        """Save what is seen."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    @property
    def asked(self) -> list[str]:
        self.says("0")
        return [
            event["params"]["request"]["url"]
            for event in self.events
            if event["method"] == "Network.requestWillBeSent"
        ]

    @property
    def errors(self) -> list[str]:
        """What the page complains about in the console."""
        self.says("0")
        thrown = [e for e in self.events if e["method"] == "Runtime.exceptionThrown"]
        logged = [e["params"]["entry"] for e in self.events if e["method"] == "Log.entryAdded"]
        return [e["params"]["exceptionDetails"]["exception"]["description"] for e in thrown] + [
            e["text"] for e in logged if e["level"] == "error"
        ]

    def __enter__(self):
        return self

    def __exit__(self, *_) -> None:
        with suppress(Exception):
            self.socket.close()
        self.browser.terminate()
        self.browser.wait(30)
        self.folder.cleanup()
