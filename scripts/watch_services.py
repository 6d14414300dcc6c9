#!/usr/bin/python3
"""What a person would see of four services: one leaks, one becomes slow, one starves its trainer, and one is healthy.

    scripts/watch_services.py docs/status-page.png     writes the pictures docs/status-page.png and docs/status-page-dark.png

Starts the four, with real trainers, and a real Prometheus with our rules. Then it

- evaluates every expression of the dashboards and of the rules for each service, and fails if one gives no data, unless
  NO_DATA says why, or if one of FAULTS is not above 0 where its fault is, or is where it is not;
- waits until the alerts of each service fire, and fails if another one fires. A window of an hour is one of 20 s here, and no
  alert waits before it fires; the windows as they are in the file are evaluated, too;
- opens the status page of each service in Chromium, light and dark, and fails if it does not show what is wrong, if its
  console has an error, or if a name that looks like markup becomes markup;
- opens a report of `bulkhead doctor --html` there, and fails if its curves cannot be seen, or if it asks for another file.

Prints a table of what was evaluated: for each service the number of series, or whether the alert fired. Takes two to three minutes.

Needs chromium and pngquant (apt install chromium pngquant; without them it exits with 77), what scripts/setup.sh --test
gets, and a build in build/release or in BULKHEAD_BIN_DIR.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parent.parent
os.environ.setdefault("BULKHEAD_SOURCE_DIR", str(ROOT))
sys.path[:0] = [str(ROOT / "tests/metrics"), str(ROOT / "tests/e2e"), str(ROOT / "client/python")]
import bulkhead  # noqa: E402
from alert_rules import quick, rules  # noqa: E402
from browser import Browser  # noqa: E402
from conftest import AUGMENTED, BIN, Service  # noqa: E402
from dashboards import DASHBOARDS, VALUES, substituted  # noqa: E402
from prometheus import RATE_INTERVAL, Prometheus  # noqa: E402
from watched import Trainer, metrics_url, promised_bytes, target_of, wait_until  # noqa: E402

MARKUP = "<img src=x onerror=document.title='broken'>"
PICTURE_SECONDS = 60.0


@dataclasses.dataclass(frozen=True)
class Training:
    """A trainer's spec, and how long each of its steps takes."""

    spec: dict
    step_seconds: float


@dataclasses.dataclass(frozen=True)
class Scene:
    """A service, its trainers by the names of their streams, and what has to be seen of it."""

    options: tuple[str, ...]
    trainings: dict[str, Training]
    alerts: frozenset[str]
    shown: tuple[str, ...]
    hidden: tuple[str, ...] = ()
    quarantined: tuple[str, ...] = ()  # that the list of these says
    tight: bool = False  # its budget is just what its trainers need
    restarts: int = 0


def numbers(*stages: dict, **more) -> dict:
    return {"source": {"range": {"size": 100_000}}, "stages": list(stages), "batch": {"size": 8}, **more}


def photos(folder: pathlib.Path) -> dict:
    return {"source": {"image_folder": {"path": str(folder / "folder")}}, "stages": AUGMENTED, "batch": {"size": 8},
            "order": "global", "epochs": "forever"}  # fmt: skip


def images(function: str) -> dict:
    """A Python stage that makes images, and one that hands them on, by this function of tests/e2e/doctor_stages.py."""
    image = [{"name": "image", "dtype": "uint8", "shape": [32, 32, 3]}]
    stages = [
        {"python": {"function": f"doctor_stages:{name}", "inputs": [given], "outputs": image}}
        for name, given in (("sound", "index"), (function, "image"))
    ]
    return numbers(*stages)


def scenes(folder: pathlib.Path) -> dict[str, Scene]:
    small = ("--workers", "1", "--worker-quota", "128MiB", "--allow-fault-stages")
    leaks = Training(numbers({"fault": {"leak": "64KiB"}}), 0.03)
    # At 40 samples a second; the last ones come when the picture is nearly taken, so that it has them.
    crashes = Training(numbers({"fault": {"crash": True, "records": [40, 90, 140, 1800]}}, errors={"policy": "substitute"}), 0.2)
    return {
        "leak": Scene(
            small,
            {"leaks": leaks},
            alerts=frozenset({"BulkheadStageLeaks"}),
            shown=("leak: stages[0] fault keeps 64", "quota 128 MiB", "replaced as planned", "waits for the trainer",
                   "No record is left out."),
            hidden=("signal", "waits for workers"),
        ),
        "slow": Scene(
            ("--workers", "1", "--python", sys.executable, "--python-path", str(ROOT / "tests/e2e")),
            {"slows": Training(images("slower"), 0.0)},
            alerts=frozenset({"BulkheadTrainerStarves", "BulkheadServiceRestarts"}),
            shown=("waits for workers", "replaced as planned", "stages[1] python takes", "times as long as in its first samples"),
            hidden=("signal", "leak", "waits for the trainer"),
            restarts=3,
        ),
        # Beside the starved trainer a leak and a crash loop, so that one page, and the pictures of it, have them all.
        "starved": Scene(
            small,
            {"leaks": leaks, "crashes": crashes, f"starves {MARKUP}": Training(numbers({"fault": {"slow": 0.03}}), 0.0)},
            alerts=frozenset({"BulkheadTrainerStarves", "BulkheadStageLeaks", "BulkheadWorkersCrash", "BulkheadQuarantineGrows",
                              "BulkheadBudgetNearlyFull"}),
            shown=("starves", MARKUP, "waits for workers", "waits for the trainer", "leak: stages[0] fault keeps 64",
                   "quota 128 MiB", "replaced as planned", "killed by signal 11", "at stages[0] fault of range@1800",
                   "stages[0] fault takes 100 % of their time; no further worker fits the memory budget", "samples/s", "ms a run"),
            quarantined=("range@40", "range@90", "range@140"),
            tight=True,
        ),
        "healthy": Scene(
            ("--workers", "2", "--root", str(folder)),
            {"train": Training(photos(folder), 0.1), "validate": Training({**photos(folder), "seed": 2}, 0.3)},
            alerts=frozenset(),
            shown=("train", "validate", "waits for the trainer", "stages[0] decode_image", "No worker has ended.",
                   "No record is left out."),
            hidden=("waits for workers", "leak", "replaced", "signal"),
        ),
    }  # fmt: skip


# Why an expression gives no data of a service, by its panel.
NO_DATA = {
    ("What the last replacement took", "healthy"): "none of its workers was replaced",
}
# Panels that are 0 where nothing is wrong, and the services of which they have to rise. No quota is met: workers that leak are
# replaced before.
FAULTS: dict[str, set[str]] = {
    "Starts again, last hour": {"slow"},
    "Refused openings": {"leak"},
    "Deaths of workers": {"starved"},
    "Records in quarantine": {"starved"},
    "Quota bites, last hour": set(),
    "Times that a quota bit": set(),
    "Planned replacements, last hour": {"leak", "slow", "starved"},
    "Recent replacements by cause": {"leak", "slow", "starved"},
    "Samples off the normal way": {"starved"},
}


class Watch:
    """The running services, their trainers, and the Prometheus that scrapes them."""

    def __init__(self, folder: pathlib.Path, scenes: dict[str, Scene]):
        self._folder, self._scenes = folder, scenes
        self._options = {name: self._options_of(name) for name in scenes}
        self._services = {name: self._start(name, "127.0.0.1:0") for name in scenes}
        # By service: what Prometheus calls it.
        self.instances = {name: target_of(metrics_url(folder / name)) for name in scenes}
        self.prometheus = Prometheus(folder / "prometheus", list(self.instances.values()), quick(folder))
        self._trainers: list[Trainer] = []
        for name in scenes:
            self._wait_until_scraped(name)  # a rate needs the zero before the first

    def _options_of(self, name: str) -> tuple[str, ...]:
        """With the budget that its streams need, found by opening them in a service with room."""
        (self._folder / name).mkdir()
        scene = self._scenes[name]
        if not scene.tight:
            return scene.options
        roomy = Service(self._folder / name, *scene.options)
        with contextlib.ExitStack() as stack:
            stack.callback(roomy.stop)
            for stream, training in scene.trainings.items():
                stack.enter_context(bulkhead.Loader(training.spec, roomy.target, name=stream, credits=2))
            return (*scene.options, "--memory-budget", f"{(promised_bytes(roomy) >> 20) + 2}MiB")

    def _start(self, name: str, metrics: str) -> Service:
        return Service(self._folder / name, "--metrics", metrics, *self._options[name])

    def _wait_until_scraped(self, name: str) -> None:
        """This start of the service, and until the next is in another second, for starts are told in whole ones."""
        began = bulkhead.service_status(self._services[name].target)["start_time"]
        expression = f'bulkhead_start_time_seconds{{instance="{self.instances[name]}"}}'
        wait_until(
            lambda: abs((self.prometheus.value(expression) or 0) - began) < 0.01 and time.time() >= int(began) + 1.1,
            lambda: f"{name} is scraped",
        )

    def train(self) -> None:
        for name, scene in self._scenes.items():
            for stream, training in scene.trainings.items():
                self._trainers.append(
                    Trainer(training.spec, self._services[name].target, stream, training.step_seconds, credits=2)
                )

    def refuse_an_opening(self, name: str) -> None:
        with contextlib.suppress(bulkhead.SpecError):
            bulkhead.Loader(numbers("decode_image"), self._services[name].target)
            raise SystemExit("a stage that cannot take numbers was not refused")

    def restart(self) -> None:
        """Kills services beneath their trainers, as often as their scenes say."""
        for name, scene in self._scenes.items():
            for _ in range(scene.restarts):
                process = self._services[name].process
                os.kill(process.pid, signal.SIGKILL)
                process.wait()
                self._services[name] = self._start(name, self.instances[name])
                self._wait_until_scraped(name)

    def page(self, name: str) -> str:
        return f"http://{self.instances[name]}/"

    def check_trainers(self) -> None:
        for trainer in self._trainers:
            if trainer.error is not None:
                raise trainer.error

    def stop(self) -> None:
        for trainer in self._trainers:
            trainer.stop()
        self.prometheus.stop()
        for service in self._services.values():
            service.stop()


class Evaluation:
    """Every expression, by service, and the table of what it gave."""

    def __init__(self, watch: Watch):
        self._watch = watch
        self._rows: list[tuple[str, dict[str, str]]] = []
        self.problems: list[str] = []

    def _query(self, expression: str, instance: str, over: str = "") -> list[float]:
        """The values of its series now; with "max_over_time", the highest of each since the beginning."""
        sent = substituted(expression, **{**VALUES, "instance": instance}, __rate_interval=RATE_INTERVAL)
        found = self._watch.prometheus.query(f"{over}(({sent})[10m:1s])" if over else sent)
        return [float(series["value"][1]) for series in found]

    def dashboards(self) -> None:
        """Waits until all have the data that they should have; what Prometheus does not take fails at once."""
        for board in DASHBOARDS.values():
            for title, expression in board.expressions():
                self._add(f"{board.name}: {title}", title, expression)

    def _add(self, row: str, title: str, expression: str) -> None:
        cells = {}
        for service, instance in self._watch.instances.items():
            reason = NO_DATA.get((title, service))
            deadline = time.monotonic() + 30
            while not (values := self._query(expression, instance)) and reason is None and time.monotonic() < deadline:
                time.sleep(0.5)
            cells[service] = str(len(values)) if values else "-"
            if values and reason:
                self.problems.append(f"{row}: of {service} there is data, though '{reason}'")
            if not values and not reason:
                self.problems.append(f"{row}: no data of {service}")
            if title in FAULTS and values:
                highest = max(self._query(expression, instance, "max_over_time"))
                cells[service] += f", up to {highest:.3g}"
                if (highest > 0) != (service in FAULTS[title]):
                    self.problems.append(f"{row}: of {service} up to {highest:.3g}")
        self._rows.append((row, cells))

    def variables(self) -> None:
        """Of the dashboards: each service is offered."""
        for board in DASHBOARDS.values():
            for variable, (series, label) in board.label_queries().items():
                matching = self._watch.prometheus.get("series", **{"match[]": substituted(series, **VALUES)})
                offered = {entry[label] for entry in matching}
                if variable == "instance" and offered != set(self._watch.instances.values()):
                    self.problems.append(f"{board.name}: ${variable} offers {offered}")
                cells = {
                    service: str(len({entry[label] for entry in matching if entry["instance"] == instance}))
                    for service, instance in self._watch.instances.items()
                }
                self._rows.append((f"{board.name}: ${variable}", cells))

    def rules(self, expected: dict[str, frozenset[str]]) -> None:
        """As they are in the file, none may fail; with short windows, exactly the expected alerts fire."""
        for rule in rules():
            self._watch.prometheus.query(rule["expr"])
        for group in self._watch.prometheus.get("rules")["groups"]:
            for rule in group["rules"]:
                if rule["health"] != "ok":
                    self.problems.append(f"{rule['name']}: {rule['health']}: {rule.get('lastError')}")
        for name in [rule["record"] for rule in rules() if "record" in rule]:
            self._add(name, name, f'{name}{{instance=~"$instance"}}')
        fired = self.fired()
        for service, names in fired.items():
            if names != expected[service]:
                self.problems.append(f"of {service} fired {sorted(names)}, not {sorted(expected[service])}")
        for name in [rule["alert"] for rule in rules() if "alert" in rule]:
            self._rows.append((name, {service: "fired" if name in names else "-" for service, names in fired.items()}))

    def fired(self) -> dict[str, frozenset[str]]:
        """By service, the alerts that fired at any time."""
        series = self._watch.prometheus.query('count_over_time(ALERTS{alertstate="firing"}[1h])')
        return {
            service: frozenset(entry["metric"]["alertname"] for entry in series if entry["metric"]["instance"] == instance)
            for service, instance in self._watch.instances.items()
        }

    def print(self) -> None:
        services = list(self._watch.instances)
        print("| what was evaluated |", " | ".join(services), "|")
        print("|---|" + "---|" * len(services))
        for row, cells in self._rows:
            print(f"| {row} |", " | ".join(cells[service] for service in services), "|")
        for (title, service), reason in NO_DATA.items():
            print(f"no data: {title}, {service}: {reason}")


def check_ground(browser: Browser, scheme: str) -> None:
    red = int(browser.evaluate("getComputedStyle(document.body).backgroundColor.match(/[0-9]+/)[0]"))
    if (red > 127) != (scheme == "light"):
        raise SystemExit(f"{browser.evaluate('location.href')} is not {scheme}")


def look_at_report(browser: Browser, folder: pathlib.Path) -> None:
    """Of the doctor, on a spec whose second stage leaks."""
    (folder / "leak.json").write_text(json.dumps(images("keeps")))
    command = [BIN / "bulkhead", "doctor", "leak.json", "--samples", "400", "--html", "doctor.html", "--python", sys.executable,
               "--python-path", ROOT / "tests/e2e"]  # fmt: skip
    found = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if found.returncode != 1:
        raise SystemExit(f"the doctor ended with {found.returncode}:\n{found.stdout}{found.stderr}")
    browser.open(f"file://{folder}/doctor.html")
    for scheme in ("light", "dark"):
        browser.prefer(scheme)
        wait_until(lambda: "python (doctor_stages:keeps) keeps 24" in browser.text(), browser.text)
        check_ground(browser, scheme)
        # Of all curves with more than one point the smaller side of the chart, and the colour that they really have.
        curves = browser.evaluate("""[...document.querySelectorAll('polyline')].filter(curve => curve.points.length > 1).map(curve => {
            const chart = curve.ownerSVGElement.getBoundingClientRect();
            return [Math.min(chart.width, chart.height), getComputedStyle(curve).stroke]; })""")
        if len(curves) < 10 or any(side < 50 or colour == "none" for side, colour in curves):
            raise SystemExit(f"the report's curves cannot be seen: {curves}")
    if browser.requests != [f"file://{folder}/doctor.html"] or browser.errors:
        raise SystemExit(f"the report asked for {browser.requests}: {browser.errors}")


def look(browser: Browser, scene: Scene, name: str) -> None:
    """At the page that is open, until it shows what it should, light and dark."""
    for scheme in ("light", "dark"):
        browser.prefer(scheme)

        def wrong() -> list[str]:
            text = browser.text()
            missing = [f"{words!r} is missing" for words in scene.shown if words not in text]
            missing += [f"{words!r} is there" for words in scene.hidden if words in text]
            listed = browser.evaluate("document.querySelector('#quarantine').innerText")
            missing += [f"{record!r} is not among the quarantined" for record in scene.quarantined if record not in listed]
            curves = browser.evaluate("[...document.querySelectorAll('#pipelines svg')].map(chart => chart.querySelectorAll('polyline').length)")
            if not curves or min(curves) < 2:  # of the worker, and of at least one stage
                missing.append(f"curves: {curves}")
            return missing

        wait_until(lambda: not wrong(), lambda: f"the page of {name}: {wrong()}\n{browser.text()}")
        check_ground(browser, scheme)
    if browser.evaluate("document.title") != "Bulkhead" or browser.evaluate("document.images.length") != 0:
        raise SystemExit("a stream's name became markup")
    if any(not request.startswith(browser.evaluate("location.origin")) for request in browser.requests):
        raise SystemExit(f"the page of {name} asked for {browser.requests}")
    if browser.errors:
        raise SystemExit("\n".join(browser.errors))


def look_at_all(browser: Browser, watch: Watch, scenes: dict[str, Scene], picture: pathlib.Path, opened: float) -> None:
    """The starved service's page is open since `opened`; its pictures are taken when its curves are long enough."""
    look(browser, scenes["starved"], "starved")
    time.sleep(max(0.0, opened + PICTURE_SECONDS - time.monotonic()))
    for scheme, path in (("light", picture), ("dark", picture.with_stem(picture.stem + "-dark"))):
        browser.prefer(scheme)
        browser.take_picture(path)
    for name, scene in scenes.items():
        if name != "starved":
            browser.open(watch.page(name))
            look(browser, scene, name)


@contextlib.contextmanager
def running(folder: pathlib.Path, scenes: dict[str, Scene]) -> Iterator[tuple[Watch, Browser]]:
    with contextlib.ExitStack() as stack:
        watch = Watch(folder, scenes)
        stack.callback(watch.stop)
        browser = Browser(folder)
        stack.callback(browser.close)
        yield watch, browser


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", type=pathlib.Path, help="where the light picture goes; the dark one beside it")
    options = parser.parse_args()
    missing = [name for name in ("chromium", "pngquant") if shutil.which(name) is None]
    if missing:
        print(f"missing: {', '.join(missing)} (apt install {' '.join(missing)})")
        return 77
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        subprocess.run([BIN / "bulkhead", "synth", folder / "photos", "--count", "150", "--size", "200x150", "--seed", "7"],
                       check=True, stdout=subprocess.DEVNULL)  # fmt: skip
        all_scenes = scenes(folder / "photos")
        with running(folder, all_scenes) as (watch, browser):
            watch.train()
            opened = time.monotonic()
            browser.open(watch.page("starved"))
            watch.refuse_an_opening("leak")
            watch.restart()
            evaluation = Evaluation(watch)
            expected = {name: scene.alerts for name, scene in all_scenes.items()}
            wait_until(
                lambda: all(evaluation.fired()[name] >= alerts for name, alerts in expected.items()),
                lambda: f"the alerts fire: {evaluation.fired()}",
            )
            look_at_all(browser, watch, all_scenes, options.picture, opened)
            evaluation.dashboards()
            evaluation.variables()
            evaluation.rules(expected)
            watch.check_trainers()
            look_at_report(browser, folder)
            evaluation.print()
            for problem in evaluation.problems:
                print(f"watch: {problem}", file=sys.stderr)
            return 1 if evaluation.problems else 0


if __name__ == "__main__":
    sys.exit(main())
