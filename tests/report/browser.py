"""Chromium without a driver: the DevTools protocol over a pair of pipes."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_LIMIT_S = 60


def chromium() -> str | None:
    """The browser's path; None where there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class BrowserError(Exception):
    """The browser refused a command or ended."""


@dataclass
class Page:
    """One tab."""

    browser: Browser
    session: str
    requests: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        return self.browser.send(method, self.session, **params)

    def resize(self, width: int, height: int, *, mobile: bool = False, scale: float = 1) -> None:
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=mobile,
        )

    def media(self, media: str = "", scheme: str = "light") -> None:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.send("Emulation.setEmulatedMedia", media=media, features=features)

    def open(self, path: Path) -> None:
        """Load a file and wait for it."""
        self.send("Page.navigate", url=path.resolve().as_uri())
        self.browser.wait_for("Page.loadEventFired", self.session)

    def run(self, expression: str) -> Any:
        """The value of a JavaScript expression; promises are awaited."""
        answer = self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise BrowserError(json.dumps(answer["exceptionDetails"])[:2000])
        return answer["result"].get("value")

    def screenshot(self, path: Path, *, full: bool = False) -> None:
        answer = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=full)
        path.write_bytes(base64.b64decode(answer["data"]))

    def pdf(self, path: Path) -> None:
        answer = self.send("Page.printToPDF", preferCSSPageSize=True, printBackground=True)
        path.write_bytes(base64.b64decode(answer["data"]))


class Browser:
    """A running headless browser."""

    def __init__(self, to: int, back: int) -> None:
        self._to = to
        self._back = os.fdopen(back, "rb")
        self._number = 0
        self._buffer = b""
        self._pages: dict[str, Page] = {}
        self._events: list[tuple[str, str]] = []

    def close(self) -> None:
        os.close(self._to)
        self._back.close()

    def page(self, *, javascript: bool = True) -> Page:
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self._pages[session] = Page(self, session)
        for domain in ("Page", "Runtime", "Network", "Log"):
            page.send(f"{domain}.enable")
        if not javascript:
            page.send("Emulation.setScriptExecutionDisabled", value=True)
        return page

    def send(self, method: str, session: str = "", **params: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._to, data) :]
        number = self._number
        while True:
            answer = self._read()
            if answer.get("id") == number:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']}")
                return answer["result"]

    def wait_for(self, method: str, session: str) -> None:
        while (session, method) not in self._events:
            self._read()
        self._events.remove((session, method))

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            block = self._back.read1(1 << 16)
            if not block:
                raise BrowserError("the browser ended")
            self._buffer += block
        line, _, self._buffer = self._buffer.partition(b"\0")
        message = json.loads(line)
        self._note(message)
        return message

    def _note(self, message: dict[str, Any]) -> None:
        page = self._pages.get(message.get("sessionId", ""))
        method, params = message.get("method", ""), message.get("params", {})
        if page is None or not method:
            return
        if method == "Network.requestWillBeSent":
            page.requests.append(params["request"]["url"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            page.messages.append(str(params["args"]))
        elif method == "Runtime.exceptionThrown":
            page.messages.append(str(params["exceptionDetails"]))
        elif method == "Log.entryAdded":
            page.messages.append(params["entry"]["text"])
        elif method == "Page.loadEventFired":
            self._events.append((page.session, method))


@contextmanager
def running(program: str) -> Iterator[Browser]:
    """A browser for the length of the block, with a profile that vanishes."""
    to_child, to_browser = os.pipe()
    from_browser, from_child = os.pipe()

    def place_pipes() -> None:
        # The protocol wants descriptors 3 and 4, which may be any of ours.
        first, second = os.dup(to_child), os.dup(from_child)
        os.dup2(first, 3)
        os.dup2(second, 4)

    with tempfile.TemporaryDirectory(prefix="situ-browser-", ignore_cleanup_errors=True) as profile:
        command = [
            program,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--remote-debugging-pipe",
            f"--user-data-dir={profile}",
            "about:blank",
        ]
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            close_fds=False,
            preexec_fn=place_pipes,
        )
        os.close(to_child)
        os.close(from_child)
        browser = Browser(to_browser, from_browser)
        try:
            yield browser
        finally:
            browser.close()
            process.terminate()
            try:
                process.wait(_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
