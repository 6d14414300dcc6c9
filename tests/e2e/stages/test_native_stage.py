"""Stages in the user's libraries, by bulkhead/stage.h: the example, and what a library may do wrong."""

import collections
import itertools
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

import bulkhead
from conftest import HERE, Service, error_of, write_spec

pytestmark = pytest.mark.xdist_group("native_stage")  # where the libraries are compiled once
ROOT = HERE.parents[1]

# What it does is told by its argument.
LIBRARY = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <atomic>
#include <new>
#include <stdexcept>
#include "bulkhead/stage.h"

// What a wild pointer may do: writes 64 bytes into every page of every arena, closed slots first.
static void Scribble() {
  for (const char* protection : {" ---s", " "}) {
    FILE* maps = fopen("/proc/self/maps", "r");
    char line[512];
    while (fgets(line, sizeof(line), maps) != nullptr) {
      unsigned long begin, end;
      if (!strstr(line, "bulkhead-arena") || !strstr(line, protection) || sscanf(line, "%lx-%lx", &begin, &end) != 2) continue;
      for (unsigned long page = begin; page < end; page += 4096) memset((void*)page, 0x55, 64);
    }
    fclose(maps);
  }
}

static std::atomic<int> calls;

struct Silent : std::exception {
  const char* what() const noexcept override { return nullptr; }
};

static int Create(const BulkheadStageConfig* config, void** state, char* error, uint64_t) {
  const char* what = config->argument_count > 0 ? config->arguments[0].value : "";
  if (strcmp(what, "refuse") == 0) {
    strcpy(error, "not with me");
    return 1;
  }
  *state = strdup(what);
  return 0;
}

static int Run(void* state, BulkheadCall* call) {
  const char* what = (const char*)state;
  int64_t index;
  memcpy(&index, call->inputs[0].data, sizeof(index));
  BulkheadOutput& out = call->outputs[0];
  if (strcmp(what, "odd") == 0 && index % 2 == 1) {
    strcpy(call->error, "an odd one");
    return 7;
  }
  if (strcmp(what, "throw") == 0) throw std::runtime_error("thrown");
  if (strcmp(what, "throw_number") == 0) throw 42;
  if (strcmp(what, "throw_silently") == 0) throw Silent();
  if (strcmp(what, "latin1") == 0) throw std::runtime_error("caf\xe9");
  if (strcmp(what, "allocate") == 0) throw std::bad_alloc();
  if (strcmp(what, "no_memory") == 0) return BULKHEAD_NO_MEMORY;
  if (strcmp(what, "leak") == 0) memset(malloc(1 << 20), 1, 1 << 20);
  if (strcmp(what, "rows") == 0 || strcmp(what, "many") == 0) {
    out.count = strcmp(what, "many") == 0 ? out.shape[0] + 1 : index;
    for (int64_t i = 0; i < index; ++i) ((int64_t*)out.data)[i] = index;
    return 0;
  }
  // Once in a worker's life, which a worker that does nothing but one lease never comes to.
  if (strcmp(what, "scribble") == 0) {
    if (++calls == 100) Scribble();
    for (int i = 0; i < 64; ++i) ((int64_t*)out.data)[i] = index;
    return 0;
  }
  if (strcmp(what, "random") == 0) {
    memcpy(out.data, call->random_key, sizeof(int64_t));
    return 0;
  }
  memcpy(out.data, &index, sizeof(index));
  return 0;
}

static void Destroy(void* state) { free(state); }

#ifndef TABLE
#define TABLE {sizeof(BulkheadStage), Create, Run, Destroy}
#endif
extern "C" BULKHEAD_STAGE_EXPORT const BulkheadStage* SYMBOL() {
  static const BulkheadStage stage = TABLE;
  return &stage;
}
"""


def compile_library(source, target, *options):
    subprocess.run(["c++", "-std=c++17", "-fPIC", "-shared", "-I", ROOT / "include", *options, "-o", target, source], check=True)


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    folder = tmp_path_factory.mktemp("libraries")
    source = folder / "stage.cc"
    source.write_text(LIBRARY)
    compile_library(source, folder / "libstage.so", "-DSYMBOL=bulkhead_stage_v1")
    compile_library(source, folder / "libother.so", "-DSYMBOL=something_else")
    compile_library(source, folder / "libshort.so", "-DSYMBOL=bulkhead_stage_v1", "-DTABLE={8, Create, Run, Destroy}")
    (folder / "libtext.so").write_text("no library")
    subprocess.run(["cmake", "-S", ROOT / "examples/native_stage", "-B", folder / "build"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", folder / "build"], check=True, stdout=subprocess.DEVNULL)
    shutil.copy(folder / "build/libchannel_means.so", folder)
    return folder


@pytest.fixture
def start(services, folder, photos, libraries):
    homes = (folder / f"service{number}" for number in itertools.count())

    def start_one(*options, workers=1):
        return services(next(homes), "--root", photos, "--workers", workers, "--native-path", libraries, *options)

    return start_one


def over_range(folder, what="", outputs=None, library="libstage.so", size=16, **more):
    stage = {"library": library, "inputs": ["index"], "outputs": outputs or [{"name": "index", "dtype": "int64"}]}
    if what:
        stage["arguments"] = {"what": what}
    return write_spec(folder / "native.json", source={"range": {"size": size}}, stages=[{"native": stage}],
                      **{"batch": {"size": 8}, "epochs": 1, **more})


def read(service, spec):
    with bulkhead.Loader(spec, service.target, timeout=120) as loader:
        return [{name: np.array(batch[name]) for name in batch} for batch in loader]


def test_a_library_that_was_replaced_is_other_code(start, folder, libraries):
    library = libraries / "libmine.so"
    shutil.copy(libraries / "libstage.so", library)
    service = start()
    spec = over_range(folder, library="libmine.so")

    def first_cursor(**options):
        with bulkhead.Loader(spec, service.target, timeout=60, **options) as loader:
            return loader.next_batch().cursor, service.workers()

    cursor, workers = first_cursor()
    assert [file["name"] for file in cursor["code"]] == ["libmine.so"]
    assert first_cursor() == (cursor, workers)
    (libraries / "new.so").write_bytes(library.read_bytes() + b"more")
    os.replace(libraries / "new.so", library)
    other, others = first_cursor()
    assert other["bytes_fingerprint"] != cursor["bytes_fingerprint"]
    assert not set(workers) & set(others)
    with pytest.raises(bulkhead.BulkheadError, match="libmine.so was changed"):
        first_cursor(cursor=cursor)


def test_the_example_computes_what_it_says(start, folder, photos):
    def spec(arguments):
        return write_spec(
            folder / "means.json", source={"image_folder": {"path": str(photos / "folder")}},
            stages=["decode_image", {"resize": {"size": [40, 30]}}, {"center_crop": {"size": [20, 20]}}, {"native": {
                "library": "libchannel_means.so", "outputs": [{"name": "means", "dtype": "float32", "shape": [3]}],
                "arguments": arguments}}],
            outputs=["image", "means"], batch={"size": 10}, epochs=1, seed=3)
    service = start(workers=2)
    for batch in read(service, spec({"scale": 0.5})):
        assert np.allclose(batch["means"], batch["image"].mean(axis=(1, 2)) * 0.5, rtol=1e-6)
    # Its noise is drawn from the sample's key, whichever worker draws it.
    noisy = [batch["means"] for batch in read(service, spec({"noise": 5}))]
    again = [batch["means"] for batch in read(start(), spec({"noise": 5}))]
    assert np.array_equal(noisy, again)
    noise = np.array([n - b["image"].mean(axis=(1, 2)) for n, b in zip(noisy, read(service, spec({"noise": 5})))])
    assert noise.min() > -1e-3 and noise.max() < 5.001 and noise.std() > 1
    error = error_of(service, spec({"colour": 1}))
    assert error.reason == "STAGE_UNUSABLE"
    assert "knows the arguments scale and noise only" in str(error)


def test_rows_and_random_bits(start, folder):
    service = start()
    rows = [{"name": "rows", "dtype": "int64", "shape": [-1], "max_count": 16}]
    for number, batch in enumerate(read(service, over_range(folder, "rows", rows))):
        assert batch["rows_count"].tolist() == list(range(8 * number, 8 * number + 8))
        for i, count in enumerate(batch["rows_count"]):
            assert batch["rows"][i].tolist() == [count] * count + [0] * (16 - count)
    drawn = np.concatenate([batch["index"] for batch in read(service, over_range(folder, "random", size=400))])
    assert len(set(drawn.tolist())) == 400


@pytest.mark.parametrize("what, reason, text", [
    ("odd", "STAGE_FAILED", "stages[0] native: libstage.so: an odd one (7)"),
    ("throw", "STAGE_FAILED", "libstage.so: thrown"),
    ("throw_number", "STAGE_FAILED", "libstage.so: an exception of an unknown type"),
    ("throw_silently", "STAGE_FAILED", "stages[0] native: libstage.so: "),
    ("latin1", "STAGE_FAILED", "libstage.so: caf?"),
    ("refuse", "STAGE_UNUSABLE", "libstage.so: not with me"),
])
def test_errors_have_the_librarys_words(start, folder, what, reason, text):
    error = error_of(start(), over_range(folder, what))
    assert error.reason == reason
    assert text in str(error)


def test_a_count_over_its_bound_is_a_sample_error(start, folder):
    rows = [{"name": "rows", "dtype": "int64", "shape": [-1], "max_count": 16}]
    error = error_of(start(), over_range(folder, "many", rows))
    assert error.reason == "OVER_BOUND"
    assert "the count 17, not 0 to max_count, 16" in str(error)


def test_substitute_passes_over_bad_samples(start, folder):
    spec = over_range(folder, "odd", size=8, errors={"policy": "substitute", "max_fraction": 1})
    [batch] = read(start(), spec)
    assert batch["index"].tolist() == [0, 2, 2, 4, 4, 6, 6, 0]


@pytest.mark.parametrize("what", ["allocate", "no_memory"])
def test_out_of_memory_ends_the_worker(start, folder, what):
    service = start()
    error = error_of(service, over_range(folder, what))
    assert error.reason == "WORKER_CRASH_LOOP", error
    deaths = bulkhead.service_status(service.target)["recent_exits"]
    assert {death["cause"] for death in deaths} == {"EXIT_CAUSE_OUT_OF_MEMORY"}
    assert {death["refused_stage"] for death in deaths} == {"stages[0] native (libstage.so)"}


@pytest.mark.parametrize("library, reason, text", [
    ("libmissing.so", "STAGE_UNUSABLE", "there is no file `libmissing.so` below a --native-path"),
    ("libother.so", "STAGE_UNUSABLE", "has no function bulkhead_stage_v1"),
    ("libshort.so", "STAGE_UNUSABLE", "a table that is too short"),
    ("libtext.so", "STAGE_UNUSABLE", "cannot load"),
    ("/bin/true", "PATH_NOT_ALLOWED", "leads out of the --native-path"),
    ("../../../../../../../../bin/true", "PATH_NOT_ALLOWED", "leads out of the --native-path"),
])
def test_only_stages_of_allowed_folders_are_loaded(start, folder, library, reason, text):
    error = error_of(start(), over_range(folder, library=library))
    assert error.reason == reason, error
    assert text in str(error)


def test_links_are_followed_before_they_are_judged(start, folder, libraries):
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    shutil.copy(libraries / "libstage.so", elsewhere)
    inside, outside = libraries / "inside.so", libraries / "outside.so"
    inside.symlink_to(libraries / "libstage.so")
    outside.symlink_to(elsewhere / "libstage.so")
    service = start()
    try:
        assert len(read(service, over_range(folder, library="inside.so"))) == 2
        assert error_of(service, over_range(folder, library="outside.so")).reason == "PATH_NOT_ALLOWED"
    finally:
        inside.unlink()
        outside.unlink()


def test_without_native_path_there_are_no_native_stages(folder):
    service = Service(folder)
    error = error_of(service, over_range(folder))
    assert error.reason == "SPEC_INVALID"
    assert "--native-path FOLDER" in str(error)
    service.stop()


def test_a_leak_is_named_and_its_worker_replaced(start, folder):
    service = start("--worker-quota", "64MiB", "--allow-fault-stages")
    spec = write_spec(folder / "leak.json", source={"range": {"size": 100_000}}, batch={"size": 10}, stages=[
        {"fault": {"slow": 0.005}},
        {"native": {"library": "libstage.so", "inputs": ["index"], "outputs": [{"name": "index", "dtype": "int64"}],
                    "arguments": {"what": "leak"}}}])
    live = 0
    with bulkhead.Loader(spec, service.target, timeout=120) as loader:
        for number, batch in enumerate(loader.stream()):
            assert batch["index"].tolist() == list(range(10 * number, 10 * number + 10))
            status = bulkhead.service_status(service.target)
            for worker in status["workers"]:
                for stage in worker.get("stages", []):
                    if stage["stage"] == "stages[1] native":
                        live = max(live, int(stage["live_bytes"]))
            if len(status.get("recent_recyclings", [])) >= 2:
                break
    assert live > 8 << 20
    assert int(status.get("limit_events", 0)) == 0


@pytest.mark.parametrize("transport", ["shm", "grpc"])
def test_a_wild_write_ends_its_worker_and_changes_no_batch(start, folder, transport):
    service = start(workers=2)
    rows = [{"name": "index", "dtype": "int64", "shape": [64]}]  # of a batch 128 KiB
    spec = over_range(folder, "scribble", rows, size=4096, batch={"size": 256})
    held = collections.deque()
    with bulkhead.Loader(spec, service.target, timeout=120, transport=transport) as loader:
        for number, batch in enumerate(loader):
            held.append((batch, np.repeat(np.arange(256 * number, 256 * (number + 1)), 64).reshape(256, 64)))
            for kept, expected in held:
                assert np.array_equal(kept["index"], expected)
            if len(held) == 3:
                held.popleft()
        status = bulkhead.service_status(service.target)
    assert number == 15
    deaths = status["recent_exits"]
    assert int(status["wild_writes"]) == len(deaths) > 0
    for death in deaths:
        assert death["cause"] == "EXIT_CAUSE_CRASHED"
        assert "it wrote to a batch that was not its own (slot " in death["reason"]
        assert death["reason"].endswith("in stages[0] native")
        assert [thread["stage"] for thread in death["activity"]] == ["stages[0] native"]


def test_python_and_native_stages_work_together(start, folder):
    service = start("--python-path", HERE, "--python", sys.executable)
    spec = write_spec(folder / "both.json", source={"range": {"size": 8}}, batch={"size": 8}, epochs=1, stages=[
        {"python": {"function": "user_functions:index_squared", "inputs": ["index"],
                    "outputs": [{"name": "index", "dtype": "int64"}]}},
        {"native": {"library": "libstage.so", "inputs": ["index"], "outputs": [{"name": "copy", "dtype": "int64"}]}}])
    [batch] = read(service, spec)
    assert batch["copy"].tolist() == [i * i for i in range(8)]


def test_the_header_is_c(tmp_path):
    (tmp_path / "x.c").write_text('#include "bulkhead/stage.h"\nint main(void) { return sizeof(BulkheadCall) == 0; }\n')
    subprocess.run(["cc", "-std=c99", "-Wall", "-Werror", "-pedantic", "-I", ROOT / "include", "-c", tmp_path / "x.c",
                    "-o", os.devnull], check=True)
