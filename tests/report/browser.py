"""A headless Chromium behind its DevTools protocol, as far as the tests of the report need it."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import websocket

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-extensions"),
    *("--hide-scrollbars", "--remote-allow-origins=*", "--remote-debugging-port=0"),
    "--disable-dev-shm-usage",
)
TIMEOUT = 60  # seconds; a machine may be busy


def find_chromium() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """A running browser, gone at the end with all that it wrote."""
    program = find_chromium()
    assert program is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": profile},
        )
        try:
            browser = Browser(_connect(Path(profile, "DevToolsActivePort"), process))
            try:
                yield browser
            finally:
                with contextlib.suppress(websocket.WebSocketException, OSError):
                    browser.call("Browser.close")
                browser.socket.close()
        finally:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _connect(port_file: Path, process: subprocess.Popen) -> websocket.WebSocket:
    end = time.monotonic() + TIMEOUT
    while not (port_file.exists() and port_file.read_text().count("\n") >= 1):
        assert process.poll() is None, "Chromium did not start"
        assert time.monotonic() < end, "Chromium did not start in time"
        time.sleep(0.05)
    port, path = port_file.read_text().split("\n")[:2]
    return websocket.create_connection(f"ws://127.0.0.1:{port}{path}", timeout=TIMEOUT)


@dataclass
class Browser:
    socket: websocket.WebSocket
    events: list[dict[str, Any]] = field(default_factory=list)
    calls: int = 0

    def call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        self.calls += 1
        message = {"id": self.calls, "method": method, "params": params}
        self.socket.send(json.dumps(message | ({"sessionId": session} if session else {})))
        while True:
            answer = json.loads(self.socket.recv())
            if answer.get("id") == self.calls:
                assert "error" not in answer, answer
                return answer["result"]
            if "method" in answer:
                self.events.append(answer)

    @contextlib.contextmanager
    def page(
        self, path: Path, width: int = 1200, height: int = 900, **media: str
    ) -> Iterator[Page]:
        """A page that has loaded and, where it has charts, drawn them."""
        self.events.clear()
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(f"{domain}.enable")
        page.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        page.call("Emulation.setFocusEmulationEnabled", enabled=True)
        page.media(**media)
        page.call("Page.navigate", url=path.as_uri())
        page.wait("document.readyState === 'complete' && document.documentElement.dataset.ready")
        try:
            yield page
        finally:
            self.call("Target.closeTarget", targetId=target)


@dataclass
class Page:
    browser: Browser
    session: str

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        return self.browser.call(method, self.session, **params)

    def media(self, scheme: str = "light", kind: str = "") -> None:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=kind, features=features)

    def js(self, expression: str) -> Any:
        """The value of an expression, awaited where it is a promise."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait(self, condition: str) -> None:
        end = time.monotonic() + TIMEOUT
        while not self.js(f"Boolean({condition})"):
            assert time.monotonic() < end, f"not in time: {condition}"
            time.sleep(0.02)

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def key(self, key: str, code: int) -> None:
        more = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        text = {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", **more, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **more)

    def screenshot(self, path: Path | None = None, whole: bool = False) -> bytes:
        taken = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        image = base64.b64decode(taken["data"])
        if path is not None:
            path.write_bytes(image)
        return image

    def events(self, method: str) -> list[dict[str, Any]]:
        self.js("0")  # what was sent before is here now
        return [
            event["params"]
            for event in self.browser.events
            if event["method"] == method and event.get("sessionId") == self.session
        ]

    @property
    def complaints(self) -> list[str]:
        """Everything on the console that is no plain message, and exceptions."""
        spoken = [
            str(event["args"])
            for event in self.events("Runtime.consoleAPICalled")
            if event["type"] in ("error", "warning", "assert")
        ]
        thrown = [str(event) for event in self.events("Runtime.exceptionThrown")]
        logged = [str(event["entry"]) for event in self.events("Log.entryAdded")]
        return [*spoken, *thrown, *logged]

    @property
    def requests(self) -> list[str]:
        """What was asked for beyond the page itself."""
        urls = [event["request"]["url"] for event in self.events("Network.requestWillBeSent")]
        return urls[1:]
