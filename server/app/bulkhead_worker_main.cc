// bulkhead-worker: started by bulkheadd with its end of a socketpair; never by hand.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

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
  std::vector<const char*> native_paths;
  bool understood = true;
  for (int i = 1; i < argc; ++i) {
    if (const char* fd = ValueOf("--control-fd=", argv[i])) {
      control_fd = std::atoi(fd);
    } else if (const char* folder = ValueOf("--native-path=", argv[i])) {
      native_paths.push_back(folder);
    } else {
      understood = false;
    }
  }
  if (!understood || control_fd < 0) {
    std::fprintf(stderr, "bulkhead-worker is started by bulkheadd, not by hand.\n");
    return 2;
  }
  native_paths.push_back(nullptr);
  const char* const none = nullptr;
  bulkhead_worker_run(control_fd, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                      nullptr, nullptr, nullptr, nullptr, &none, &none, native_paths.data());
}
