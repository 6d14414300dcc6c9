// libbulkhead_worker.so: a worker inside the interpreter that loads it (worker_host.py).
#include <unistd.h>

#include <utility>

#include "server/stages/running/user_code.h"
#include "server/worker/allocation_tracker.h"
#include "server/worker/python/interpreter.h"
#include "server/worker/worker.h"

// Runs a worker to its end, and ends the process with it. The caller must not hold the
// interpreter's lock. `readable`, `python_paths` and `native_paths` are null-terminated.
extern "C" __attribute__((visibility("default"))) void bulkhead_worker_run(
    int control_fd, BulkheadPythonLoad load, BulkheadPythonCall call,
    BulkheadPythonTakeLoaded take_loaded, const uint64_t* loaded_count, BulkheadPythonStacks stacks,
    BulkheadPythonNotes notes, BulkheadPythonEnsure ensure, BulkheadPythonSave save,
    const char* const* readable, const char* const* python_paths, const char* const* native_paths) {
  bulkhead::AllocationTracker& tracker = bulkhead::AllocationTracker::Start();
  // Never destroyed: threads may still work when the process ends.
  auto& interpreter = *new bulkhead::Interpreter(
      {load, call, take_loaded, loaded_count, stacks, notes, ensure, save});
  bulkhead::UserCode user_code;
  user_code.python = &interpreter;
  for (; *readable != nullptr; ++readable) user_code.readable.emplace_back(*readable);
  for (; *python_paths != nullptr; ++python_paths) {
    user_code.python_paths.emplace_back(*python_paths);
  }
  for (; *native_paths != nullptr; ++native_paths) {
    user_code.native_paths.emplace_back(*native_paths);
    user_code.readable.emplace_back(*native_paths);
  }
  bulkhead::PacketSocket socket{bulkhead::UniqueFd(control_fd)};
  _exit(bulkhead::RunWorker(std::move(socket), nullptr, &tracker, user_code));
}
