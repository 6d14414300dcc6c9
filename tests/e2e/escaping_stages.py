"""Stages of the user's own that try to leave the workers' sandbox: what a service refuses, the tools refuse in its words."""

import pathlib
import re
import subprocess

from conftest import write_spec

ROOT = pathlib.Path(__file__).resolve().parents[2]
INT = {"name": "index", "dtype": "int64"}

PYTHON_CODE = """
import os, pathlib, socket, tempfile

def does(index, *, what):
    exec(what)
    return index

def leaves_a_file(image, *, place):
    try:
        open(place, "x").close()
    except OSError:
        pass
    return image
"""

# The first argument is what it does, and where.
NATIVE_CODE = r"""
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "bulkhead/stage.h"

static int Create(const BulkheadStageConfig* config, void** state, char*, uint64_t) {
  *state = strdup(config->arguments[0].value);
  return 0;
}

static bool Does(const std::string& what) {
  if (what == "socket") return socket(AF_UNIX, SOCK_STREAM, 0) >= 0;
  if (what == "fork") {
    const pid_t child = fork();
    if (child == 0) _exit(0);
    return child > 0 && waitpid(child, nullptr, 0) == child;
  }
  if (what == "own") {
    std::string name = std::string(getenv("TMPDIR")) + "/XXXXXX";
    std::string home = std::string(getenv("HOME")) + "/XXXXXX";
    return mkstemp(name.data()) >= 0 && mkstemp(home.data()) >= 0;
  }
  const bool writes = what.rfind("write ", 0) == 0;
  return open(what.substr(what.find(' ') + 1).c_str(), writes ? O_CREAT | O_WRONLY : O_RDONLY, 0600) >= 0;
}

static int Run(void* state, BulkheadCall* call) {
  memcpy(call->outputs[0].data, call->inputs[0].data, call->inputs[0].size_bytes);
  if (Does((const char*)state)) return 0;
  snprintf(call->error, call->error_bytes, "%s: %s", (const char*)state, strerror(errno));
  return 1;
}

extern "C" BULKHEAD_STAGE_EXPORT const BulkheadStage* bulkhead_stage_v1() {
  static const BulkheadStage stage = {sizeof(BulkheadStage), Create, Run, nullptr};
  return &stage;
}
"""


def over_range(folder, *stages, **more):
    spec = {"source": {"range": {"size": 8}}, "batch": {"size": 4}, "epochs": 1, "outputs": ["index"]}
    return write_spec(folder / "escapes.json", stages=list(stages), **{**spec, **more})


def python_stage(folder, what):
    (folder / "code").mkdir(exist_ok=True)
    (folder / "code/escapes.py").write_text(PYTHON_CODE)
    return {"python": {"function": "escapes:does", "inputs": ["index"], "outputs": [INT], "arguments": {"what": what}}}


def native_stage(folder, what):
    (folder / "code").mkdir(exist_ok=True)
    library = folder / "code/libescapes.so"
    if not library.exists():
        (folder / "escapes.cc").write_text(NATIVE_CODE)
        subprocess.run(["c++", "-std=c++17", "-fPIC", "-shared", "-I", ROOT / "include", "-o", library, folder / "escapes.cc"],
                       check=True)
    return {"native": {"library": library.name, "inputs": ["index"], "outputs": [INT], "arguments": {"what": what}}}


def refusal_in(said):
    """What is said of the denied call, without what stands before and behind it."""
    found = re.search(r"PermissionError: .*?\.md\)|libescapes.so: .*? \(1\)", said)
    assert found, said
    return found.group()
