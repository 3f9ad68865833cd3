# SPDX-License-Identifier: Apache-2.0
"""Headless Chromium by its own protocol over a pair of pipes: no driver, no package, no port."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import pathlib
import select
import shutil
import signal
import time
from typing import Any, Optional

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--remote-debugging-pipe",
)


def find() -> Optional[str]:
    """The program: SPECTRALCLIP_CHROMIUM, or the first one in PATH."""
    given = os.environ.get("SPECTRALCLIP_CHROMIUM")
    return given or next((path for path in map(shutil.which, PROGRAMS) if path), None)


def _above(descriptor: int) -> int:
    """The same pipe end with a number that 3 and 4, which Chromium expects, cannot meet."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(descriptor)
    return moved


class Browser:
    """One page.  ``events`` has all that Chromium said by itself; ``console`` and ``requests`` are picked from it."""

    def __init__(self, program: str, folder: pathlib.Path) -> None:
        their_input, self._output = map(_above, os.pipe())
        self._input, their_output = map(_above, os.pipe())
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, str(folder / "chromium.log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
            (os.POSIX_SPAWN_DUP2, their_input, 3),
            (os.POSIX_SPAWN_DUP2, their_output, 4),
        ]
        command = [program, *FLAGS, f"--user-data-dir={folder / 'profile'}", "about:blank"]
        self._process = os.posix_spawn(program, command, dict(os.environ), file_actions=actions, setpgroup=0)
        os.close(their_input)
        os.close(their_output)
        self._buffer = b""
        self._count = 0
        self._session: Optional[str] = None
        self.events: list[dict[str, Any]] = []
        target = next(one for one in self.call("Target.getTargets")["targetInfos"] if one["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def close(self) -> None:
        """Ends the processes of this browser and of no other: they are a group of their own."""
        with contextlib.suppress(OSError, TimeoutError, RuntimeError):
            self._session = None
            self.call("Browser.close", timeout=10)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        os.close(self._input)
        os.close(self._output)

    def call(self, method: str, timeout: float = 60, **parameters: Any) -> dict[str, Any]:
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._output, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + timeout
        while True:
            answer = self._next(deadline)
            if "method" in answer:
                self.events.append(answer)
            elif answer["id"] == self._count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def _next(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._input], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError("Chromium does not answer")
            chunk = os.read(self._input, 1 << 20)
            if not chunk:
                raise RuntimeError("Chromium has gone")
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(line)

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression; promises are awaited."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait_for(self, expression: str, seconds: float = 90) -> None:
        deadline = time.monotonic() + seconds
        while not self.evaluate(f"Boolean({expression})"):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{expression} did not become true within {seconds} s")
            time.sleep(0.1)

    def open(self, path: pathlib.Path, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        self.resize(width, height)
        self.prefer(dark=dark)
        self.events.clear()
        self.call("Page.navigate", url=path.as_uri())

    def resize(self, width: int, height: int = 900) -> None:
        size = dict(width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setDeviceMetricsOverride", **size)

    def prefer(self, *, dark: bool) -> None:
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def swipe_up(self, x: float, y: float, distance: float) -> None:
        """A finger, moved in small steps as fingers are."""
        self.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[dict(x=x, y=y)])
        for i in range(1, 21):
            self.call("Input.dispatchTouchEvent", type="touchMove", touchPoints=[dict(x=x, y=y - distance * i / 20)])
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def screenshot(self, path: pathlib.Path, clip: Optional[dict[str, float]] = None) -> None:
        more: dict[str, Any] = {"clip": {**clip, "scale": 1}} if clip else {}
        image = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, **more)
        path.write_bytes(base64.b64decode(image["data"]))

    @property
    def complaints(self) -> list[str]:
        """Errors and warnings on the console, uncaught exceptions and what Chromium itself logged."""
        found = []
        for event in self.events:
            what = event["params"]
            if event["method"] == "Runtime.consoleAPICalled" and what["type"] in ("error", "warning", "assert"):
                found.append(str(what["args"]))
            elif event["method"] == "Runtime.exceptionThrown":
                found.append(str(what["exceptionDetails"]))
            elif event["method"] == "Log.entryAdded" and what["entry"]["level"] in ("error", "warning"):
                found.append(what["entry"]["text"])
        return found

    @property
    def requests(self) -> list[str]:
        sent = (event for event in self.events if event["method"] == "Network.requestWillBeSent")
        return [event["params"]["request"]["url"] for event in sent]
