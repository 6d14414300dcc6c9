#include "server/worker/python/worker_library.h"

#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "bulkhead/internal/v1/worker.pb.h"
#include "server/stages/running/user_code.h"
#include "server/worker/allocation_tracker.h"
#include "server/worker/python/interpreter.h"
#include "server/worker/worker.h"
#include "server/worker/worker_sandbox.h"

void bulkhead_worker_run(int control_fd, BulkheadPythonLoad load, BulkheadPythonCall call,
                         BulkheadPythonTakeLoaded take_loaded, const uint64_t* loaded_count,
                         BulkheadPythonStacks stacks, BulkheadPythonNotes notes,
                         BulkheadPythonTakeGrowth take_growth, const uint64_t* growth_count,
                         uint64_t* samples, BulkheadPythonEnsure ensure, BulkheadPythonSave save,
                         const char* const* readable, const char* const* python_paths,
                         const char* const* native_paths) {
  bulkhead::AllocationTracker& tracker = bulkhead::AllocationTracker::Start();
  bulkhead::UserCode user_code;
  if (load != nullptr) {
    // Never destroyed: threads may still work when the process ends.
    user_code.python =
        new bulkhead::Interpreter({load, call, take_loaded, loaded_count, stacks, notes,
                                   take_growth, growth_count, samples, ensure, save});
  }
  for (; *readable != nullptr; ++readable) user_code.readable.emplace_back(*readable);
  for (; *python_paths != nullptr; ++python_paths) {
    user_code.python_paths.emplace_back(*python_paths);
  }
  for (; *native_paths != nullptr; ++native_paths) {
    user_code.native_paths.emplace_back(*native_paths);
    user_code.readable.emplace_back(*native_paths);
  }
  bulkhead::PacketSocket socket{bulkhead::UniqueFd(control_fd)};
  // Threads may still be at work: leave without running destructors.
  _exit(bulkhead::RunWorker(std::move(socket), nullptr, &tracker, std::move(user_code)));
}

int bulkhead_worker_confine(const char* bind, uint64_t bind_bytes, const char* binding,
                            uint64_t binding_bytes, const char* const* readable) {
  bulkhead::internal::v1::Bind to_bind;
  bulkhead::internal::v1::PipelineBinding bound;
  if (!to_bind.ParseFromString({bind, bind_bytes}) ||
      !bound.ParseFromString({binding, binding_bytes})) {
    return 0;
  }
  std::vector<std::string> code;
  for (; *readable != nullptr; ++readable) code.emplace_back(*readable);
  bulkhead::EnterPipelineSandbox(to_bind, bound, code);
  return 1;
}
