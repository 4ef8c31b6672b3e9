"""A page in headless Chromium, driven over its debugging socket: real clicks and keys."""

import base64
import json
import shutil
import subprocess
import urllib.request
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import connect

from tests.waiting import WAIT_S, until

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
KEYS = {"Escape": 27, "Enter": 13, "Tab": 9, "ArrowRight": 39, "ArrowLeft": 37}


class Page:
    """One page, from `with` to its end."""

    def __init__(self, folder: Path, *, width: int = 1440, height: int = 790, dark: bool = False):
        assert CHROMIUM is not None
        self.profile = folder / "profile"
        self.process = subprocess.Popen(
            [
                CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--mute-audio",
                "--no-first-run", "--disable-background-networking",
                "--remote-debugging-port=0", f"--user-data-dir={self.profile}",
                f"--window-size={width},{height}", "about:blank",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self.number = 0
        self.complaints: list[str] = []
        self.open_things = ExitStack()
        self.open_things.callback(self._kill)
        self.socket = self.open_things.enter_context(
            connect(self._address(), max_size=None, open_timeout=WAIT_S, ping_interval=None)
        )
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip

    def _address(self) -> str:
        file = self.profile / "DevToolsActivePort"

        def found() -> str:
            assert self.process.poll() is None, "chromium has ended"
            if not file.exists() or not file.read_text().strip():
                return ""
            port = file.read_text().split()[0]
            url = f"http://127.0.0.1:{port}/json/list"
            with urllib.request.urlopen(url, timeout=WAIT_S) as answer:
                pages = [one for one in json.load(answer) if one["type"] == "page"]
            return str(pages[0]["webSocketDebuggerUrl"]) if pages else ""

        return until(found)

    def __enter__(self) -> "Page":
        return self

    def __exit__(self, *_: object) -> None:
        self.open_things.close()

    def _kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """The answer of one method; complaints that come meanwhile are kept."""
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": params}))
        while True:
            message = json.loads(self.socket.recv(timeout=WAIT_S))
            if message.get("id") == self.number:
                assert "error" not in message, message
                return message["result"]
            self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        method, params = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(params["exceptionDetails"])[:500])
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.complaints.append(json.dumps(params["args"])[:500])

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)

    def value(self, expression: str) -> Any:
        """What a JavaScript expression is worth in the page."""
        found = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, (expression, found["exceptionDetails"])
        return found["result"].get("value")

    def text(self, selector: str) -> str:
        return str(self.value(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    def wait(self, expression: str) -> Any:
        """Waits until an expression is true."""

        def true() -> Any:
            with suppress(AssertionError):  # the page is not there yet
                return self.value(expression)

        return until(true, lambda: (expression, self.complaints))

    def click(self, selector: str) -> None:
        """Presses and releases the mouse in the middle of what is on top there."""
        place = self.value(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "const r = e.getBoundingClientRect(); const [x, y] = [r.x + r.width / 2, r.y + "
            "r.height / 2]; const top = document.elementFromPoint(x, y);"
            "return [x, y, e === top || e.contains(top)]; })()"
        )
        assert place[2], f"{selector} is covered by something"
        for kind in ("mousePressed", "mouseReleased"):
            self.call(
                "Input.dispatchMouseEvent",
                type=kind, x=place[0], y=place[1], button="left", clickCount=1,
            )  # fmt: skip

    def key(self, name: str) -> None:
        typed = {"text": "\r"} if name == "Enter" else {}
        for kind in ("keyDown" if typed else "rawKeyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent",
                type=kind, key=name, code=name, windowsVirtualKeyCode=KEYS[name], **typed,
            )  # fmt: skip

    def picture(self, file: Path) -> None:
        shot = self.call("Page.captureScreenshot", format="png")
        file.write_bytes(base64.b64decode(shot["data"]))
