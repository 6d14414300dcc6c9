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

// The texts of a list that ends with null.
static std::vector<std::string> Strings(const char* const* texts) {
  std::vector<std::string> strings;
  for (; *texts != nullptr; ++texts) strings.emplace_back(*texts);
  return strings;
}

void bulkhead_worker_run(int control_fd, const BulkheadPython* python, const char* const* readable,
                         const char* const* python_paths, const char* const* native_paths) {
  bulkhead::AllocationTracker& tracker = bulkhead::AllocationTracker::Start();
  bulkhead::UserCode user_code;
  // Never destroyed: threads may still work when the process ends.
  if (python != nullptr) user_code.python = new bulkhead::Interpreter(*python);
  user_code.readable = Strings(readable);
  user_code.python_paths = Strings(python_paths);
  user_code.native_paths = Strings(native_paths);
  user_code.readable.insert(user_code.readable.end(), user_code.native_paths.begin(),
                            user_code.native_paths.end());
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
  bulkhead::EnterPipelineSandbox(to_bind, bound, Strings(readable));
  return 1;
}
