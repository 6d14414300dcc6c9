#ifndef BULKHEAD_SERVER_WORKER_PYTHON_WORKER_LIBRARY_H_
#define BULKHEAD_SERVER_WORKER_PYTHON_WORKER_LIBRARY_H_

#include <cstdint>

#include "server/worker/python/interpreter.h"

// Runs a worker to its end, and ends the process with it. The function that libbulkhead_worker.so
// exports: called by the interpreter that loads the library (worker_host.py), which must not hold
// its lock, and by bulkhead-worker, which has no interpreter and passes null for its functions. The
// path lists end with null; files below native paths are readable, too.
extern "C" __attribute__((visibility("default"))) void bulkhead_worker_run(
    int control_fd, BulkheadPythonLoad load, BulkheadPythonCall call,
    BulkheadPythonTakeLoaded take_loaded, const uint64_t* loaded_count, BulkheadPythonStacks stacks,
    BulkheadPythonNotes notes, BulkheadPythonTakeGrowth take_growth, const uint64_t* growth_count,
    uint64_t* samples, BulkheadPythonEnsure ensure, BulkheadPythonSave save,
    const char* const* readable, const char* const* python_paths, const char* const* native_paths);

#endif  // BULKHEAD_SERVER_WORKER_PYTHON_WORKER_LIBRARY_H_
