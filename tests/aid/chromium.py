# SPDX-License-Identifier: Apache-2.0
"""Debian's Chromium without a screen, driven over its debugging pipe: pages are opened, looked at, asked, and every
error that they log is kept. Nothing but the pipe's own JSON: no library, no network."""
import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--disable-extensions", "--hide-scrollbars",
         "--remote-debugging-pipe")


def needed():
    if not shutil.which("chromium"):
        print("SKIP: chromium is not installed")
        sys.exit(77)


class Browser:
    """One tab. `errors`: what the page logged as an error or threw, and what it tried to load and was refused."""

    def __init__(self, *more):
        self.room = tempfile.mkdtemp(prefix="ranktrace-chromium-")
        to_r, self.to = os.pipe()
        self.back, back_w = os.pipe()
        # it reads file descriptor 3 and writes 4
        os.set_inheritable(to_r, True)
        os.set_inheritable(back_w, True)
        line = f'exec 3<&{to_r} 4>&{back_w}; exec chromium "$@"'
        self.process = subprocess.Popen(["bash", "-c", line, "chromium", *FLAGS, *more, f"--user-data-dir={self.room}",
                                         "about:blank"], pass_fds=(to_r, back_w), stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, env={**os.environ, "HOME": self.room})
        os.close(to_r)
        os.close(back_w)
        self.n, self.rest, self.session = 0, b"", None
        self.errors, self.asked, self.loaded = [], [], False
        self.traced, self.tracing = [], False
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def read(self):
        while b"\0" not in self.rest:
            more = os.read(self.back, 1 << 20)
            if not more:
                raise RuntimeError("chromium ended")
            self.rest += more
        one, _, self.rest = self.rest.partition(b"\0")
        return json.loads(one)

    def note(self, message):
        method, p = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.errors.append(p["exceptionDetails"].get("exception", {}).get("description") or str(p))
        elif method == "Runtime.consoleAPICalled" and p["type"] in ("error", "assert", "warning"):
            self.errors.append(str(p["args"]))
        elif method == "Log.entryAdded" and p["entry"]["level"] in ("error", "warning"):
            self.errors.append(p["entry"]["text"])
        elif method == "Network.requestWillBeSent" and not p["request"]["url"].startswith(("blob:", "data:")):
            self.asked.append(p["request"]["url"])
        elif method == "Page.loadEventFired":
            self.loaded = True
        elif method == "Tracing.dataCollected":
            self.traced += p["value"]
        elif method == "Tracing.tracingComplete":
            self.tracing = False

    def call(self, method, **params):
        self.n += 1
        message = {"id": self.n, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            got = self.read()
            if got.get("id") == self.n:
                if "error" in got:
                    raise RuntimeError(f"{method}: {got['error']}")
                return got["result"]
            self.note(got)

    def size(self, width, height, dark=False, media="", scale=1):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale,
                  mobile=width < 500)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])

    def open(self, path):
        self.loaded = False
        self.call("Page.navigate", url="file://" + os.path.abspath(path))
        end = time.monotonic() + 60
        while not self.loaded and time.monotonic() < end:
            self.ask("1")
            time.sleep(0.05)
        self.ask("new Promise(done => setTimeout(done, 150))")

    def ask(self, script):
        """The value of an expression, or of what it promises."""
        got = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in got:
            raise RuntimeError(f"{script[:80]}: {got['exceptionDetails']}")
        return got["result"].get("value")

    def trace(self, script):
        """Its value, and the events of all of the browser's threads while it ran: the browser's own trace."""
        self.traced, self.tracing = [], True
        self.call("Tracing.start", transferMode="ReportEvents", traceConfig={"includedCategories": [
            "toplevel", "devtools.timeline"]})
        value = self.ask(script)
        self.call("Tracing.end")
        while self.tracing:
            self.note(self.read())
        return value, self.traced

    def key(self, key, **more):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, **more)

    def picture(self, path, whole=False):
        got = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole,
                        **({"clip": self.whole()} if whole else {}))
        with open(path, "wb") as f:
            f.write(base64.b64decode(got["data"]))

    def whole(self):
        s = self.call("Page.getLayoutMetrics")["cssContentSize"]
        return {"x": 0, "y": 0, "width": s["width"], "height": s["height"], "scale": 1}

    def end(self):
        self.process.kill()
        self.process.wait()
        os.close(self.to)
        os.close(self.back)
        shutil.rmtree(self.room, ignore_errors=True)
