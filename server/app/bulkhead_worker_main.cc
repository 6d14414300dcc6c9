// bulkhead-worker: started by bulkheadd with its end of a socketpair; never by hand.

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "server/worker/allocation_tracker.h"
#include "server/worker/python/worker_library.h"

namespace {

// The rest of `argument` after `flag`; null if it does not begin with `flag`.
const char* ValueOf(const char* flag, const char* argument) {
  const size_t length = std::strlen(flag);
  return std::strncmp(argument, flag, length) == 0 ? argument + length : nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  bulkhead::AllocationTracker::Start();
  int control_fd = -1;
  // They take the places of arguments that were read, so that nothing here needs the C++ library,
  // which the wheel would have once more for this file.
  const char** const native_paths = const_cast<const char**>(argv);
  int native_path_count = 0;
  bool understood = true;
  for (int i = 1; i < argc; ++i) {
    if (const char* fd = ValueOf("--control-fd=", argv[i])) {
      control_fd = std::atoi(fd);
    } else if (const char* folder = ValueOf("--native-path=", argv[i])) {
      native_paths[native_path_count++] = folder;
    } else {
      understood = false;
    }
  }
  if (!understood || control_fd < 0) {
    std::fprintf(stderr, "bulkhead-worker is started by bulkheadd, not by hand.\n");
    return 2;
  }
  native_paths[native_path_count] = nullptr;
  const char* const none = nullptr;
  bulkhead_worker_run(control_fd, nullptr, &none, &none, native_paths);
}
