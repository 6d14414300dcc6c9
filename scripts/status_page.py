#!/usr/bin/python3
"""Looks at the status page in Chromium, with a leak, a crash loop and a starved trainer on it.

    scripts/status_page.py docs/status-page.png        writes the pictures docs/status-page.png and docs/status-page-dark.png

Fails if the page does not show what is wrong, if its console has an error, or if a name that looks like markup becomes
markup. Needs chromium and pngquant (apt install chromium pngquant), and a build in build/release or in BULKHEAD_BIN_DIR.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = pathlib.Path(os.environ.get("BULKHEAD_BIN_DIR", ROOT / "build/release/bin"))
sys.path.insert(0, str(ROOT / "client/python"))
import bulkhead  # noqa: E402

# By stream: what its stage does wrong, and how long a step of its training takes.
MARKUP = "<img src=x onerror=document.title='broken'>"
FAULTS = {
    "leaks": ({"leak": "64KiB"}, 0.05),
    "crashes": ({"crash": True, "records": [40, 90, 140, 190]}, 0.2),
    f"starves {MARKUP}": ({"slow": 0.03}, 0.0),
}
SHOWN = ["starves", MARKUP, "waits for workers", "waits for the trainer", "leak", "quota", "replaced as planned", "signal",
         "stages[0] fault", "Quarantine"]  # fmt: skip
SECONDS = 60.0
WIDTH, HEIGHT = 960, 1240


@contextlib.contextmanager
def service(folder: pathlib.Path):
    """A service with small quotas: its target, and the address of its page."""
    log = folder / "service.log"
    command = [BIN / "bulkheadd", "--listen", f"unix:{folder}/s.sock", "--cache-dir", folder / "cache", "--workers", "1",
               "--worker-quota", "128MiB", "--allow-fault-stages", "--metrics", "127.0.0.1:0"]  # fmt: skip
    with open(log, "w") as out:
        process = subprocess.Popen(command, stderr=out)
    try:
        while (found := re.search(r"metrics on (http://\S+)/metrics", log.read_text())) is None:
            if process.poll() is not None:
                raise SystemExit(log.read_text())
            time.sleep(0.1)
        yield f"unix:{folder}/s.sock", found[1] + "/"
    finally:
        process.terminate()
        process.wait()


def train(target: str, name: str, ended: threading.Event) -> None:
    fault, step = FAULTS[name]
    spec = {"source": {"range": {"size": 100_000}}, "stages": [{"fault": fault}], "batch": {"size": 8},
            "errors": {"policy": "substitute"}}  # fmt: skip
    with bulkhead.Loader(spec, target, name=name, credits=2) as loader:
        while not ended.is_set():
            loader.next_batch()
            time.sleep(step)


class Browser:
    """Chromium with one page, told what to do by its DevTools protocol over a pipe."""

    def __init__(self, folder: pathlib.Path):
        read_here, write_there = os.pipe()
        read_there, write_here = os.pipe()
        script = f"exec chromium --headless --no-sandbox --disable-gpu --disable-lcd-text --hide-scrollbars --user-data-dir={folder}/profile " \
                 f"--remote-debugging-pipe about:blank 3<&{read_there} 4>&{write_there}"  # fmt: skip
        self._process = subprocess.Popen(["bash", "-c", script], pass_fds=(read_there, write_there), stderr=subprocess.DEVNULL)
        os.close(read_there), os.close(write_there)
        self._to, self._from = os.fdopen(write_here, "wb", buffering=0), os.fdopen(read_here, "rb")
        self._number, self._session = 0, None
        self.errors: list[str] = []
        page = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=WIDTH, height=HEIGHT, deviceScaleFactor=1, mobile=False)

    def call(self, method: str, **parameters):
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        self._to.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                return answer["result"]
            if answer.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded"):
                self.errors.append(json.dumps(answer["params"]))

    def _next(self) -> dict:
        read = b""
        while not read.endswith(b"\0"):
            read += self._from.read(1)
        return json.loads(read[:-1])

    def evaluate(self, expression: str):
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def take_picture(self, path: pathlib.Path, scheme: str) -> None:
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        picture = base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
        # A third of the size.
        path.write_bytes(subprocess.run(["pngquant", "64", "-"], input=picture, stdout=subprocess.PIPE, check=True).stdout)

    def close(self) -> None:
        self.call("Browser.close")
        self._process.wait()


def look(browser: Browser, page: str, seconds: float) -> None:
    """Opens the page, and waits for its curves."""
    browser.call("Page.navigate", url=page)
    time.sleep(seconds)
    text = browser.evaluate("document.body.innerText")
    missing = [words for words in SHOWN if words not in text]
    if missing:
        raise SystemExit(f"the page does not show {missing}:\n{text}")
    if browser.evaluate("document.title") != "Bulkhead" or browser.evaluate("document.images.length") != 0:
        raise SystemExit("a stream's name became markup")
    if browser.errors:
        raise SystemExit("\n".join(browser.errors))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="to look at the page before the picture")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, service(pathlib.Path(name)) as (target, page):
        ended = threading.Event()
        trainers = [threading.Thread(target=train, args=(target, stream, ended)) for stream in FAULTS]
        for trainer in trainers:
            trainer.start()
        browser = Browser(pathlib.Path(name))
        try:
            look(browser, page, options.seconds)
            browser.take_picture(options.picture, "light")
            browser.take_picture(options.picture.with_stem(options.picture.stem + "-dark"), "dark")
        finally:
            browser.close()
            ended.set()
            for trainer in trainers:
                trainer.join()


if __name__ == "__main__":
    main()
