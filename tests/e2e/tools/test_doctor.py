"""`bulkhead doctor`: which stage leaks, becomes slow or crashes, found by runs of its own."""

import html.parser
import json
import re
import subprocess

import numpy as np
import pytest
from conftest import BIN, HERE, PYTHON, write_spec



def calling(folder, *functions):
    """A spec that makes images of numbers, and hands them to functions of doctor_stages.py."""
    image = [{"name": "image", "dtype": "uint8", "shape": [32, 32, 3]}]
    stages = [
        {"python": {"function": f"doctor_stages:{name}", "inputs": ["image" if place else "index"], "outputs": image}}
        for place, name in enumerate(functions)
    ]
    return write_spec(folder / "doctor.json", source={"range": {"size": 100_000}}, stages=stages, batch={"size": 64})


def doctor(spec, *words, code):
    command = [BIN / "bulkhead", "doctor", spec, "--python", PYTHON, "--python-path", HERE, *words]
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300)
    assert result.returncode == code, result.stdout + result.stderr
    return result.stderr if code == 2 else result.stdout


def diagnosis(spec, *words, code):
    return json.loads(doctor(spec, "--samples", 800, "--json", *words, code=code))


def run_of(told, kind, stage):
    [run] = [run for run in told["runs"] if run["kind"] == kind and run["stage"] == stage]
    return run


def stage_of(run, name):
    [stage] = [stage for stage in run["stages"] if stage["stage"] == name]
    return stage


def test_a_leak_is_named_with_its_size_in_every_run_that_has_it(folder):
    told = diagnosis(calling(folder, "sound", "keeps", "same"), code=1)
    named = r"stages\[1\] python \(doctor_stages:keeps\) keeps 2[345](\.\d)?KiB more with each sample; so it does alone"
    assert re.fullmatch(named, told["conclusions"][0])
    whole = told["runs"][0]
    assert [stage["verdict"] for stage in whole["stages"] if stage["stage"].startswith("stages")] == ["clean", "leak", "clean"]
    leak = stage_of(whole, "stages[1] python")
    assert leak["code"] == "doctor_stages:keeps"
    assert leak["kept_bytes_per_sample"] == pytest.approx(24 << 10, rel=0.05) and leak["bound_bytes"] < 1024
    shown = {(run["kind"], run["stage"]): run["verdict"] for run in told["runs"]}
    assert shown.pop(("prefix", "source")) in ("clean", "cache"), "the allocator may have grown by a page or two"
    assert shown == {
        ("whole", ""): "leak",
        ("prefix", "stages[0] python"): "clean", ("prefix", "stages[1] python"): "leak",
        ("alone", "stages[0] python"): "clean", ("alone", "stages[1] python"): "leak", ("alone", "stages[2] python"): "clean",
    }  # fmt: skip
    assert run_of(told, "alone", "stages[1] python")["note"] == "image: captured"


def test_a_sound_spec_is_clean(folder):
    text = doctor(calling(folder, "sound", "same"), "--samples", 800, code=0)
    assert "no stage keeps memory and none becomes slow; a leak of less than 1.3KiB a sample would not show" in text
    assert "LEAK" not in text and "CLEAN" in text


@pytest.mark.parametrize("given", ["zeros", "file"])
def test_a_stage_alone_gets_what_is_asked_for(folder, given):
    np.save(folder / "input.npy", np.zeros((3, 32, 32, 3), np.uint8))
    choice = folder / "input.npy" if given == "file" else given
    told = diagnosis(calling(folder, "sound", "keeps_little"), "--input", choice, code=1)
    assert told["conclusions"][0].startswith("stages[1] python (doctor_stages:keeps_little) keeps 4")
    alone = run_of(told, "alone", "stages[1] python")
    assert alone["ran"] and alone["verdict"] == "leak"
    words = {"zeros": "zeros uint8 [32,32,3]", "file": "the file's uint8 [3,32,32,3]"}
    assert alone["note"] == f"image: {words[given]}"
    if given == "file":  # an image is no number
        assert not run_of(told, "alone", "stages[0] python")["ran"]


def test_a_stage_that_becomes_slow_is_named(folder):
    told = diagnosis(calling(folder, "sound", "slower"), code=1)
    assert told["conclusions"][0].startswith("stages[1] python (doctor_stages:slower) becomes slow: ")
    slow = stage_of(told["runs"][0], "stages[1] python")
    assert slow["verdict"] == "slows" and slow["last_seconds"] > 1.5 * slow["first_seconds"] > 0
    assert stage_of(told["runs"][0], "stages[0] python")["verdict"] == "clean"


def test_a_stage_that_crashes_is_named_with_its_record(folder):
    told = diagnosis(calling(folder, "sound", "dies"), code=1)
    assert told["conclusions"][0].startswith("stages[1] python (doctor_stages:dies) ended ")
    assert "signal 6" in told["conclusions"][0] and "at record range@77" in told["conclusions"][0]
    assert told["runs"][0]["verdict"] == "crashes"
    assert run_of(told, "prefix", "stages[0] python")["verdict"] == "clean"


def test_a_stage_that_takes_no_sample_fails(folder):
    spec = calling(folder, "sound", "refuses")
    told = diagnosis(spec, code=1)
    assert "no image is good enough" in " ".join(told["conclusions"])
    assert told["runs"][0]["verdict"] == "fails"
    assert re.search(r"all of the worker .*FAILS", doctor(spec, "--samples", 100, code=1))


def test_stages_that_cannot_run_alone_say_why(photos, folder):
    spec = write_spec(folder / "photos.json", source={"image_folder": {"path": str(photos / "folder")}},
                      stages=["decode_image", {"resize": {"size": 48}}, "random_horizontal_flip"], batch={"size": 8})
    told = diagnosis(spec, code=0)
    decode = run_of(told, "alone", "stages[0] decode_image")
    assert not decode["ran"] and "compare the runs with and without it" in decode["note"]
    assert run_of(told, "prefix", "stages[0] decode_image")["note"] == "with stages[1] letterbox added"
    assert run_of(told, "alone", "stages[2] random_horizontal_flip")["note"] == "image: captured"


class Page(html.parser.HTMLParser):
    """What a page has: its tags with their attributes, the rows of its tables, its text, and the curves of each chart."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.rows, self.text, self.charts = [], [], "", []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.append((tag, attributes))
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
        elif tag == "svg":
            self.charts.append((attributes["aria-label"], []))
        elif tag == "polyline":
            points = [tuple(map(float, point.split(","))) for point in attributes["points"].split()]
            self.charts[-1][1].append(points)

    def handle_data(self, data):
        self.text += data
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data


def check_self_contained(text, page):
    """It asks nobody for anything, runs nothing, and leads nowhere."""
    tags = {tag for tag, _ in page.tags}
    assert not tags & {"script", "link", "img", "iframe", "object", "embed", "base", "a", "use", "image", "form"}
    attributes = {name for _, given in page.tags for name in given}
    assert not {name for name in attributes if name in ("src", "srcset", "href", "xlink:href", "data") or name.startswith("on")}
    assert not {words for words in ("http:", "https:", "url(", "@import", "//") if words in text}


def check_report(page, told):
    """Every stage and run with its verdict, and a chart of memory and of time for every run."""
    whole, *others = told["runs"]
    named = [f"{stage['stage']} ({stage['code']})" if stage.get("code") else stage["stage"] for stage in whole["stages"]]
    verdicts = [stage["verdict"] for stage in whole["stages"]]
    head = [("", "verdict")]
    by_stage = [*zip(named, verdicts), ("all of the worker", whole["worker"]["verdict"])]
    rows = [(row[0], row[3]) for row in page.rows]
    assert rows[: len(by_stage) + 2] == head + by_stage + head
    for (name, verdict), run in zip(rows[len(by_stage) + 2 :], others, strict=True):
        assert name.removesuffix(", alone").endswith(run["stage"]) and name.endswith(", alone") == (run["kind"] == "alone")
        assert verdict == run["verdict"]
    for sentence in told["conclusions"]:
        assert sentence in page.text
    assert [name for name, _ in page.charts] == ["Memory", "Time a sample"] * len(told["runs"])
    assert all(len(curve) > 10 for _, curves in page.charts for curve in curves)


def test_the_page_is_one_file_that_needs_nothing_and_has_every_verdict_and_curve(folder):
    spec = calling(folder, "sound", "keeps").rename(folder / "odd <img src=x>.json")
    told = json.loads(doctor(spec, "--samples", 400, "--json", "--html", folder / "doctor.html", code=1))
    text = (folder / "doctor.html").read_text()
    page = Page(text)
    check_self_contained(text, page)
    check_report(page, told)
    assert spec.name in page.text
    # In the first chart, of memory, the curve of the stage that leaks rises, and those of the others do not (y grows downwards).
    names = [stage["stage"] for stage in told["runs"][0]["stages"]]
    heights = dict(zip(names, (curve[0][1] - curve[-1][1] for curve in page.charts[0][1])))
    assert heights.pop("stages[1] python") > 20
    assert all(abs(height) < 5 for height in heights.values())


def test_mistakes_end_with_2(folder):
    assert "nowhere" in doctor(folder / "nowhere.yaml", code=2)
    spec = calling(folder, "sound")
    assert "--input takes captured, zeros, random, or a .npy file" in doctor(spec, "--input", "ones", code=2)
    assert "--samples" in doctor(spec, "--samples", 5, code=2)
    assert "no_such_function" in doctor(calling(folder, "no_such_function"), code=2)


def test_a_page_that_cannot_be_written_costs_no_diagnosis(folder):
    (folder / "page.html").symlink_to("/dev/full")
    spec = write_spec(folder / "spec.json", source={"range": {"size": 1000}}, batch={"size": 10})
    command = [BIN / "bulkhead", "doctor", spec, "--samples", "100", "--html", folder / "page.html"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert run.returncode == 2 and "page.html: cannot be written: No space left on device" in run.stderr, run.stderr
    assert "100 samples in each run" in run.stdout
    assert (folder / "page.html").is_symlink()
