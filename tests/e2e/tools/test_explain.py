"""Tools that run a pipeline without a service: `explain`, `bench run --in-process`; and `pack`, which makes their data."""

import json
import os
import signal
import subprocess
import time

import bulkhead
import cv2
import numpy as np
import pytest
from conftest import AUGMENTED, BIN, HERE, PYTHON, tool, write_spec
from escaping_stages import native_stage, over_range, python_stage, refusal_in



def photo_spec(photos, folder, **more):
    return write_spec(
        folder / "spec.json",
        source={"image_folder": {"path": str(photos / "folder")}},
        stages=AUGMENTED,
        batch={"size": 32},
        seed=3,
        order="global",
        epochs=2,
        **more,
    )


@pytest.mark.parametrize("threads", [1, 3])
def test_the_library_makes_the_bytes_that_the_service_delivers(photos, folder, threads):
    spec = photo_spec(photos, folder)
    service = json.loads(tool("bench", "run", "--spec", spec, "--workers", 2, "--json"))
    library = json.loads(tool("bench", "run", "--spec", spec, "--in-process", "--threads", threads, "--json"))
    assert library["digest"] == service["digest"]
    assert (library["batches"], library["samples"]) == (service["batches"], service["samples"]) == (10, 300)
    assert library["transport"] == "in-process"


def test_the_library_makes_a_mixture_too(photos, folder):
    part = {"source": {"image_folder": {"path": str(photos / "folder")}},
            "stages": ["decode_image", {"resize": {"size": 24}}]}
    spec = write_spec(
        folder / "mixture.json",
        source={"mixture": {"sources": [{"weight": 0.75, "order": "global", **part}, {"weight": 0.25, **part}]}},
        batch={"size": 8},
        epochs=1,
    )
    service = json.loads(tool("bench", "run", "--spec", spec, "--json"))
    library = json.loads(tool("bench", "run", "--spec", spec, "--in-process", "--json"))
    assert library["digest"] == service["digest"]


def test_in_process_says_what_is_wrong(photos, folder):
    spec = write_spec(folder / "none.json", source={"image_folder": {"path": "nowhere"}}, batch={"size": 1},
                      outputs=["label"])
    assert "nowhere" in tool("bench", "run", "--spec", spec, "--in-process", code=1)
    few = photo_spec(photos, folder)
    text = json.loads(few.read_text())
    few.write_text(json.dumps({**text, "batch": {"size": 151, "last": "drop"}}))
    assert "lower batch.size" in tool("bench", "run", "--spec", few, "--in-process", code=1)
    assert "--in-process and --workers exclude each other" in tool(
        "bench", "run", "--spec", few, "--in-process", "--workers", 2, code=2)


def memory_of(told):
    """All parts, those that are told together as well."""
    return {part["what"]: part for part in told["memory"] + told["memory_remaining"]["parts"]}


def test_explain_says_where_time_and_memory_go(photos, folder):
    spec = photo_spec(photos, folder)
    told = json.loads(tool("explain", "--spec", spec, "--samples", 50, "--workers", 2, "--batch-sizes", "1,64", "--json"))
    names = [stage["name"] for stage in told["stages"]]
    assert names == ["source", "stages[0] decode_image", "stages[1] random_resized_crop",
                     "stages[2] random_horizontal_flip", "stages[3] normalize", "stages[4] layout", "batch"]
    # The crop decides what is decoded, so it is never by itself.
    assert [stage["name"] for stage in told["stages"] if stage["joined"]] == ["stages[1] random_resized_crop"]
    assert all(stage["seconds"] > 0 for stage in told["stages"] if not stage["joined"])
    assert sum(stage["seconds"] for stage in told["stages"]) == pytest.approx(told["unfused_seconds"], rel=1e-3)
    assert told["measured_samples"] == 50
    [image] = told["stages"][-2]["gives"]
    assert image == {"name": "image", "what": "float32 [3,64,64]", "sample_bytes": 3 * 64 * 64 * 4}
    with bulkhead.Loader(spec, workers=2) as loader:
        batch = next(loader.stream())
    memory = memory_of(told)
    for name, array in batch.items():
        assert memory[f"arena: {name}"]["bytes"] == memory[f"arena: {name}"]["grpc_bytes"] == 5 * array.nbytes
    assert memory["workers"]["bytes"] == 2 * memory["replacement"]["bytes"] > 0
    # In shared memory a client has views alone; over gRPC four batches of credit, and one in use.
    assert memory["client"]["bytes"] == 0 and memory["client"]["grpc_bytes"] == 5 * told["batch_bytes"]
    assert told["memory_together"]["grpc_bytes"] == told["memory_together"]["bytes"] + 5 * told["batch_bytes"]
    sizes = [max(part["bytes"], part["grpc_bytes"]) for part in told["memory"]]
    assert len(sizes) > 3 and sizes == sorted(sizes, reverse=True)
    rest = told["memory_remaining"]
    assert rest["count"] == len(rest["parts"]) > 1 and rest["bytes"] == sum(part["bytes"] for part in rest["parts"])
    small = {part["what"]: part["bytes"] for part in rest["parts"]}
    assert small["arena: path"] > small["arena: label"] > 0 and list(small.values()) == sorted(small.values(), reverse=True)
    # From the second epoch on crops are decoded by seek entries.
    assert 0 < told["mcus_read_by_seek"] < told["mcus_read"] <= 1
    assert told["again_seconds"] > 0
    one, many = told["batches"]
    assert (one["size"], many["size"]) == (1, 64)
    assert many["arena_bytes"] > 30 * one["arena_bytes"] > 0

    # A cache stage: what comes from there.
    value = json.loads(spec.read_text())
    (folder / "kept.json").write_text(json.dumps({**value, "stages": ["decode_image", {"resize": {"size": [64, 64]}}, "cache"]}))
    kept = json.loads(tool("explain", "--spec", folder / "kept.json", "--samples", 20, "--json"))
    assert kept["stages"][3]["name"] == "stages[2] cache"
    assert kept["kept_share"] == 1 and 3 * 64 * 64 <= kept["kept_sample_bytes"] < 3 * 64 * 64 + 1024
    assert kept["again_seconds"] > 0
    text = tool("explain", "--spec", folder / "kept.json", "--samples", 20)
    assert "the cache stage's values" in text and "of 100% of them" in text

    text = tool("explain", "--spec", spec, "--samples", 20)
    assert "with the above" in text and "largest first" in text and f"remaining {rest['count']} with" in text and "left of the budget" in text and "Not the loader's" in text
    assert "shape" in tool("explain", "--spec", write_spec(folder / "bad.json", batch={"size": 1}, shape=1), code=1)


@pytest.mark.parametrize("behind", ["random_resized_crop", "resize"])
def test_explain_measures_what_has_any_size(photos, folder, behind):
    (folder / "data").mkdir()
    files, pixels = [], []
    for number, photo in enumerate(sorted((photos / "folder").rglob("*.jpg"))[:40]):
        image = cv2.imread(str(photo))[: 80 + number]
        files.append(folder / "data" / photo.name)
        cv2.imwrite(str(files[-1]), image)
        pixels.append(image.size)
    spec = write_spec(folder / "spec.json", source={"image_folder": {"path": str(folder / "data"), "unlabeled": True}},
                      stages=["decode_image", {behind: {"size": [64, 64]}}], batch={"size": 32})
    told = json.loads(tool("explain", "--spec", spec, "--samples", 40, "--batch-sizes", "1,7", "--json"))
    source, decoded, made = told["stages"][:3]
    [encoded] = [given for given in source["gives"] if given["name"] == "image"]
    assert encoded["mean_bytes"] == sum(file.stat().st_size for file in files) // 40
    assert decoded["gives"] == [{"name": "image", "what": "uint8 [any,any,3]", "sample_bytes": 0,
                                 "mean_bytes": sum(pixels) // 40, "most_bytes": max(pixels)}]
    assert made["gives"] == [{"name": "image", "what": "uint8 [64,64,3]", "sample_bytes": 3 * 64 * 64}]
    for batch in told["batches"]:
        images = [given["bytes"] for given in batch["gives"] if given["stage"] in (decoded["name"], made["name"])]
        assert images == [batch["size"] * (sum(pixels) // 40), batch["size"] * 3 * 64 * 64]
    text = tool("explain", "--spec", spec, "--samples", 20, "--batch-sizes", "1,7")
    assert "batch of 32" in text and "batch of 1 " in text and "batch of 7" in text and ", most " in text


def test_explain_measures_what_a_resize_leaves_of_any_size(photos, folder):
    spec = photo_spec(photos, folder)
    value = json.loads(spec.read_text())
    value["stages"] = ["decode_image", {"resize": {"shorter_side": 40}}, {"center_crop": {"size": 32}}]
    spec.write_text(json.dumps(value))
    told = json.loads(tool("explain", "--spec", spec, "--samples", 20, "--json"))
    [resized] = told["stages"][2]["gives"]
    assert resized["sample_bytes"] == 0 and 3 * 40 * 40 <= resized["mean_bytes"] <= resized["most_bytes"]


def test_explain_shows_its_table_of_what_does_not_fit(photos, folder):
    spec = photo_spec(photos, folder)
    value = json.loads(spec.read_text())
    spec.write_text(json.dumps({**value, "batch": {"size": 2048, "last": "partial"}}))
    command = [BIN / "bulkhead", "explain", spec, "--samples", 10, "--worker-quota", "128MiB", "--memory-budget", "700MiB"]
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120)
    assert result.returncode == 1
    assert "the memory budget is exhausted" in result.stderr
    assert "stages[4] layout" in result.stdout and "arena: image" in result.stdout
    assert "it does not fit, so the service refuses the stream: the memory budget is exhausted" in result.stdout


def python_spec(photos, folder):
    """Photos of 32 × 32 pixels, made half as bright by a function of the user's."""
    halved = {"name": "image", "dtype": "uint8", "shape": [32, 32, 3]}
    return write_spec(
        folder / "python.json",
        source={"image_folder": {"path": str(photos / "folder")}},
        stages=["decode_image", {"resize": {"size": 32}},
                {"python": {"function": "user_functions:halve", "inputs": ["image"], "outputs": [halved]}}],
        batch={"size": 8},
    )


def test_explain_measures_functions_of_the_users(photos, folder):
    spec = python_spec(photos, folder)
    told = json.loads(tool("explain", "--spec", spec, "--samples", 10, "--python", PYTHON, "--python-path", HERE,
                           "--workers", 2, "--worker-quota", "200MiB", "--json"))
    assert memory_of(told)["workers"]["bytes"] == 2 * (200 << 20)
    stage = told["stages"][3]
    assert stage["name"] == "stages[2] python" and stage["seconds"] > 0
    assert stage["gives"] == [{"name": "image", "what": "uint8 [32,32,3]", "sample_bytes": 3072}]
    assert "--python-path FOLDER" in tool("explain", "--spec", spec, code=1)


DENIED_IN_PYTHON = {
    "socket.socket()": "the workers' sandbox denies socket.socket, which opens a connection",
    "os.system('true')": "the workers' sandbox denies os.system, which starts another process",
    "os.fork() or os._exit(0)": "the workers' sandbox denies os.fork, which starts another process",
    "os.chmod('FOLDER', 0o700)": "the workers' sandbox denies os.chmod, which changes what is known of a file",
    "open('FOLDER/made', 'w')": "/made': files to read must be below a folder of the data or of a --python-path",
    "open('/proc/1/status')": "the workers' sandbox denies '/proc/1/status': files to read must be below a folder of the data",
}
DENIED_TO_LIBRARIES = {what: f"libescapes.so: {what.partition(' ')[0]}" for what in
                       ("socket", "fork", "write FOLDER/made", "read /proc/1/status")}


@pytest.mark.parametrize("make, what, words", [
    *((python_stage, what, words) for what, words in DENIED_IN_PYTHON.items()),
    *((native_stage, what, words) for what, words in DENIED_TO_LIBRARIES.items()),
])
def test_the_workers_sandbox_holds_for_stages_of_explain_purity_and_doctor(folder, make, what, words):
    spec = over_range(folder, make(folder, what.replace("FOLDER", str(folder))))
    code = ["--python", PYTHON, "--python-path", folder / "code", "--native-path", folder / "code"]
    refused = refusal_in(tool("stream", spec, *code, code=1))
    assert words in refused
    assert refused == refusal_in(tool("explain", spec, "--samples", 4, *code, code=1))
    for command in ("validate", spec, "--purity", "4"), ("doctor", spec, "--samples", "100"):
        told = subprocess.run([BIN / "bulkhead", *command, *code], capture_output=True, text=True, timeout=120)
        assert refused == refusal_in(told.stdout)
    assert not (folder / "made").exists()
    # Without a sandbox it works.
    assert "stages[0]" in tool("explain", spec, "--samples", 4, "--sandbox", "none", *code)


def test_a_stage_of_explain_has_a_worker_s_folder_and_environment(folder, monkeypatch):
    monkeypatch.setenv("SECRET", "1")
    monkeypatch.setenv("PASSED_ON", "1")
    monkeypatch.setenv("BULKHEAD_WORKER_ENV", "PASSED_ON")
    monkeypatch.setenv("TMPDIR", str(folder / "tmp"))
    (folder / "tmp").mkdir()
    own = ("assert not 'SECRET' in os.environ and 'PASSED_ON' in os.environ; tempfile.mkdtemp(); "
           "pathlib.Path('~/made').expanduser().write_text('x')")
    spec = over_range(folder, python_stage(folder, own), native_stage(folder, "own"))
    code = ["--python", PYTHON, "--python-path", folder / "code", "--native-path", folder / "code"]
    assert "stages[1] native" in tool("explain", spec, "--samples", 4, *code)
    assert ": pure: " in tool("validate", spec, "--purity", 4, *code)
    assert not list((folder / "tmp").glob("bulkhead-*")), "all folders are removed"


def test_a_wrong_size_is_a_wrong_option(folder):
    spec = over_range(folder, python_stage(folder, "pass"))
    for option in "--worker-quota", "--memory-budget":
        assert f"{option}: '512' is not a size" in tool("explain", spec, option, "512", code=2)


def in_the_function(session):
    """Whether the interpreter of a tool that leads this session sleeps in a stage's function."""
    said = subprocess.check_output(["ps", "-s", str(session), "-o", "wchan:32,args"], text=True)
    return any("nanosleep" in line and "worker_host.py" in line for line in said.splitlines())


def test_who_is_interrupted_sees_no_traceback_of_ours(folder):
    spec = over_range(folder, python_stage(folder, "__import__('time').sleep(0.1)"))
    command = [BIN / "bulkhead", "explain", spec, "--python", PYTHON, "--python-path", folder / "code", "--samples", "10000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True) as explain:
        deadline = time.monotonic() + 60
        while not in_the_function(explain.pid):
            assert time.monotonic() < deadline
        os.killpg(explain.pid, signal.SIGINT)  # as a terminal's Ctrl-C
        said, _nothing = explain.communicate(timeout=60)
    assert explain.returncode != 0 and "Traceback" not in said


def test_explain_says_which_parts_of_a_sandbox_there_are(folder):
    spec = over_range(folder, python_stage(folder, "pass"))
    assert "--sandbox walls: there is no part 'walls'" in tool("explain", spec, "--sandbox", "walls", code=1)


def test_a_stage_that_ends_its_process_does_not_end_explain(folder):
    spec = over_range(folder, python_stage(folder, "os._exit(3)"))
    assert "the interpreter has ended" in tool("explain", spec, "--python-path", folder / "code", "--python", PYTHON, code=1)


def test_preview_shows_what_functions_of_the_users_make(photos, folder):
    spec = python_spec(photos, folder)
    code = ["--python", PYTHON, "--python-path", HERE]
    tool("preview", "--spec", spec, "--out", folder / "sheet.png", "--samples", 4, "--cell", 32, *code)
    sheet = cv2.imread(str(folder / "sheet.png"))
    assert sheet.shape[1] == 8 + 2 * (32 + 8)
    cell = sheet[30:62, 8:40]  # the first one
    assert 0 < cell.max() <= 127


def test_pack_keeps_every_image_and_its_label(photos, folder):
    said = tool("pack", photos / "folder", folder / "packed", "--records", 60)
    assert said.startswith("150 records in 3 files; try")
    stages = ["decode_image", {"resize": {"size": 16}}]
    packed = write_spec(
        folder / "packed/spec.json",
        source={"tfrecord": {"files": "part-*.tfrecord"}},
        features={"image": {"bytes": {}}, "label": "int64"},
        stages=stages, batch={"size": 150}, outputs=["image", "label"],
    )
    plain = write_spec(
        folder / "plain.json", source={"image_folder": {"path": str(photos / "folder")}},
        stages=stages, batch={"size": 150}, outputs=["image", "label"],
    )
    with bulkhead.Loader(packed) as one, bulkhead.Loader(plain) as two:
        a, b = next(one.stream()), next(two.stream())
        for name in ("image", "label"):
            np.testing.assert_array_equal(a[name], b[name])
    assert "valid" in tool("validate", folder / "packed/packed.yaml")


def test_pack_refuses_what_it_cannot_do_well(photos, folder):
    (folder / "full").mkdir()
    (folder / "full/file").write_text("here")
    assert "is not an empty folder" in tool("pack", photos / "folder", folder / "full", code=1)
    assert "holds no images" in tool("pack", folder / "full", folder / "out", code=1)
    assert "az://box/photos: is no URL of an object; it begins with s3://" in tool("pack", "az://box/photos", folder / "out", code=1)
    assert "s3://bucket/out: is no folder of this host" in tool("pack", photos / "folder", "s3://bucket/out", code=1)
