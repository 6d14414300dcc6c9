"""Chromium without a window, told what to do by its DevTools protocol over a pipe."""

from __future__ import annotations

import base64
import json
import os
import pathlib
import subprocess

WIDTH, HEIGHT = 960, 1240


class Browser:
    """One tab of Chromium, which reaches this machine alone. `folder` gets its profile.

    browser = Browser(folder)
    browser.open("http://127.0.0.1:9464/")
    browser.text()                        # what a person can read on the page
    browser.close()
    """

    def __init__(self, folder: pathlib.Path):
        read_here, write_there = os.pipe()
        read_there, write_here = os.pipe()
        script = f"exec chromium --headless --no-sandbox --disable-gpu --disable-lcd-text --hide-scrollbars --user-data-dir={folder}/profile " \
                 f"--host-resolver-rules='MAP * ~NOTFOUND, EXCLUDE 127.0.0.1' --remote-debugging-pipe about:blank 3<&{read_there} 4>&{write_there}"  # fmt: skip
        self._process = subprocess.Popen(["bash", "-c", script], pass_fds=(read_there, write_there), stderr=subprocess.DEVNULL)
        os.close(read_there), os.close(write_there)
        self._to, self._from = os.fdopen(write_here, "wb", buffering=0), os.fdopen(read_here, "rb")
        self._number, self._session = 0, None
        # Of the page that is open: what its console has, and the addresses that it asked for.
        self.errors: list[str] = []
        self.requests: list[str] = []
        tab = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=tab, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=WIDTH, height=HEIGHT, deviceScaleFactor=1, mobile=False)

    def call(self, method: str, **parameters):
        self._send(method, parameters)
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "result" in answer, (method, answer)
                return answer["result"]
            if answer.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded"):
                self.errors.append(json.dumps(answer["params"]))
            if answer.get("method") == "Network.requestWillBeSent":
                self.requests.append(answer["params"]["request"]["url"])

    def _send(self, method: str, parameters: dict) -> None:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        self._to.write(json.dumps(message).encode() + b"\0")

    def _next(self) -> dict:
        read = b""
        while not read.endswith(b"\0"):
            byte = self._from.read(1)
            assert byte, "Chromium ended"
            read += byte
        return json.loads(read[:-1])

    def open(self, url: str) -> None:
        self.call("Page.navigate", url="about:blank")  # after which nothing more comes of the page before
        self.errors, self.requests = [], []
        self.call("Page.navigate", url=url)

    def evaluate(self, expression: str):
        """The value of JavaScript; of a promise, what it gives in the end."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, (expression, answer)
        return answer["result"].get("value")

    def text(self) -> str:
        return self.evaluate("document.body ? document.body.innerText : ''")

    def prefer(self, scheme: str) -> None:
        """As the settings of a person's system say: "light" or "dark"."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def take_picture(self, path: pathlib.Path) -> None:
        picture = base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
        # A third of the size.
        path.write_bytes(subprocess.run(["pngquant", "64", "-"], input=picture, stdout=subprocess.PIPE, check=True).stdout)

    def close(self) -> None:
        self._send("Browser.close", {})  # it may end before it answers
        self._process.wait()
