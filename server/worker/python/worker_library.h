#pragma once

#include <cstdint>

#include "server/worker/python/interpreter_functions.h"

// libbulkhead_worker.so exports these functions and no others.

// Runs a worker to its end, and ends the process with it. Called by the interpreter that loads the
// library (worker_host.py), which must not hold its lock, and by bulkhead-worker, which has no
// interpreter and passes null for `python`. The path lists end with null; files below native
// paths are readable, too.
extern "C" __attribute__((visibility("default"))) void bulkhead_worker_run(
    int control_fd, const BulkheadPython* python, const char* const* readable,
    const char* const* python_paths, const char* const* native_paths);

// Puts this process, an interpreter that serves a tool (worker_host.py --serve-fd), into the
// sandbox of a worker that gets this internal.v1.Bind and this internal.v1.PipelineBinding.
// `readable`: as above. To be called while the process has one thread. Returns 0 if a message
// cannot be parsed.
extern "C" __attribute__((visibility("default"))) int bulkhead_worker_confine(
    const char* bind, uint64_t bind_bytes, const char* binding, uint64_t binding_bytes,
    const char* const* readable);
