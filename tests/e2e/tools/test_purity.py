"""`bulkhead validate --purity`: impure functions, of the kinds that people write, are named."""

import re
import subprocess

import pytest

from conftest import AUGMENTED, BIN, HERE, PYTHON, write_spec

OPTIONS = ["--python", PYTHON, "--python-path", HERE]


def function(name, output="index"):
    return {"python": {"function": f"batch_functions:{name}", "inputs": ["index"],
                       "outputs": [{"name": output, "dtype": "int64"}]}}


def over_range(folder, *stages, **more):
    spec = {"source": {"range": {"size": 30}}, "stages": list(stages), "batch": {"size": 8}, "order": "global"}
    return write_spec(folder / "spec.json", **{**spec, **more})


def check(spec, samples=20, code=0, options=OPTIONS):
    result = subprocess.run([BIN / "bulkhead", "validate", "--purity", str(samples), *map(str, options), str(spec)],
                            capture_output=True, text=True, timeout=120)
    assert result.returncode == code, result.stdout + result.stderr
    return result.stdout if not result.stderr else result.stdout + result.stderr


def test_a_pure_pipeline_is_pure(folder, photos):
    spec = write_spec(folder / "photos.json", source={"image_folder": {"path": str(photos / "folder")}},
                      stages=[*AUGMENTED, {"one_hot": {"classes": 10}}], batch={"size": 16}, order="global",
                      batch_stages=["mixup_or_cutmix"])
    said = check(spec, 40, options=[])
    assert "pure: 40 samples and 3 batches, made twice, in two processes and in opposite orders, came out the same" in said
    spec = over_range(folder, function("pure"), function("draw", "drawn"), batch_stages=[function("draw", "of_batch")])
    # All of a range of 30, in batches of 8.
    assert "pure: 30 samples and 4 batches" in check(spec, 1000)


@pytest.mark.parametrize("name", ["by_clock", "by_count", "by_own_generator", "by_process"])
def test_an_impure_function_is_named(folder, name):
    said = check(over_range(folder, function("pure"), function(name, "made"), function("pure", "after")), code=1)
    assert re.search(r"spec.json: stages\[1\] python is impure: of 20 samples, (19|20) came out differently the second time", said)
    assert re.search(r"\n  position 0: range@\d+\n", said)
    assert said.count("is impure") == 1, "only the first that differs is to blame"


def test_a_single_sample_is_named(folder):
    said = check(over_range(folder, function("sometimes_by_clock", "made")), samples=30, code=1)
    assert "stages[0] python is impure: of 30 samples, 1 came out differently" in said
    assert re.search(r"position \d+: range@5\n", said)


def test_an_error_in_one_run_only_is_impure(folder):
    said = check(over_range(folder, function("fails_by_count", "made")), code=1)
    assert "stages[0] python is impure: of 20 samples, 2 came out differently" in said
    assert "which failed in one run: " in said and "ValueError: the third" in said


def test_errors_that_are_the_same_are_no_impurity(folder):
    needs = {"python": {"function": "batch_functions:needs_less_than", "inputs": ["index"],
                        "outputs": [{"name": "index", "dtype": "int64"}], "arguments": {"limit": 3}}}
    said = check(over_range(folder, needs, order="sequential"))
    assert "pure: 20 samples" in said and "17 of them could not be produced, for the same reason both times" in said


def test_what_always_fails_is_not_called_pure(folder):
    needs = {"python": {"function": "batch_functions:needs_less_than", "inputs": ["index"],
                        "outputs": [{"name": "index", "dtype": "int64"}], "arguments": {"limit": 0}}}
    said = check(over_range(folder, needs), code=1)
    assert "not shown to be pure: none of 20 samples could be produced" in said and ": pure" not in said
    assert "stages[0]" in said, "where, and why"


def test_an_impure_batch_function_is_named(folder):
    spec = over_range(folder, function("pure"), batch_stages=[
        function("draw", "drawn"), function("batch_by_clock", "clock"), function("draw", "again")])
    said = check(spec, code=1)
    assert "batch_stages[1] python is impure: of 20 samples and 3 batches, 3 came out differently" in said
    assert "the batch of positions 8 to 15" in said and said.count("is impure") == 1


def test_a_fault_and_a_missing_path_are_told(folder):
    assert "stages[0].python runs a function of yours: name the folder of its module with --python-path" in check(
        over_range(folder, function("pure")), code=1, options=[])
    assert "has no `nothing`" in check(over_range(folder, function("nothing")), code=1)
    assert "the interpreter has ended" in check(over_range(folder, {"python": {
        "function": "batch_functions:crash_at", "inputs": ["index"], "arguments": {"at": 3},
        "outputs": [{"name": "index", "dtype": "int64"}]}}, order="sequential"), code=1)


def test_an_invalid_spec_is_not_run(folder):
    said = check(over_range(folder, function("pure"), {"resize": {"size": 3}}), code=1)
    assert "resize" in said and "pure" not in said.replace("batch_functions:pure", "")


COUNTING = r"""
#include <string.h>
#include "bulkhead/stage.h"

static int Run(void*, BulkheadCall* call) {
  static int64_t calls = 0;
  int64_t index;
  memcpy(&index, call->inputs[0].data, sizeof(index));
  index += COUNTED ? ++calls : (int64_t)(call->random_key[0] % 100);
  memcpy(call->outputs[0].data, &index, sizeof(index));
  return 0;
}

extern "C" __attribute__((visibility("default"))) const BulkheadStage* bulkhead_stage_v1(void) {
  static const BulkheadStage stage = {sizeof(BulkheadStage), nullptr, Run, nullptr};
  return &stage;
}
"""


@pytest.mark.parametrize("counted", [0, 1])
def test_a_native_stage_is_checked(folder, counted):
    source = folder / "counting.cc"
    source.write_text(COUNTING)
    subprocess.run(["c++", "-shared", "-fPIC", f"-DCOUNTED={counted}", "-I", HERE.parents[1] / "include", source, "-o",
                    folder / "libcounting.so"], check=True)
    spec = over_range(folder, {"native": {"library": "libcounting.so", "inputs": ["index"],
                                          "outputs": [{"name": "made", "dtype": "int64"}]}})
    said = check(spec, code=counted, options=["--native-path", folder])
    assert ("stages[0] native is impure: of 20 samples, 20 came out differently" in said) == bool(counted)
    assert ("pure: 20 samples" in said) == (not counted)
