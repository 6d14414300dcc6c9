// bulkhead-worker: started by bulkheadd with its end of a socketpair; never by hand.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "server/arena/exit_codes.h"
#include "server/worker/allocation_tracker.h"
#include "server/worker/worker.h"

namespace {

// What follows `flag` in `argument`; null when that is another one.
const char* ValueOf(const char* flag, const char* argument) {
  const size_t length = std::strlen(flag);
  return std::strncmp(argument, flag, length) == 0 ? argument + length : nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  bulkhead::AllocationTracker& tracker = bulkhead::AllocationTracker::Start();
  int control_fd = -1;
  bulkhead::UserCode user_code;
  bool understood = true;
  for (int i = 1; i < argc; ++i) {
    if (const char* fd = ValueOf("--control-fd=", argv[i])) {
      control_fd = std::atoi(fd);
    } else if (const char* folder = ValueOf("--native-path=", argv[i])) {
      user_code.native_paths.emplace_back(folder);
      user_code.readable.emplace_back(folder);
    } else {
      understood = false;
    }
  }
  if (!understood || control_fd < 0) {
    std::fprintf(stderr, "bulkhead-worker is started by bulkheadd, not by hand.\n");
    return 2;
  }
  bulkhead::PacketSocket socket{bulkhead::UniqueFd(control_fd)};
  // Threads may still be at work: leave without running destructors.
  _exit(bulkhead::RunWorker(std::move(socket), nullptr, &tracker, std::move(user_code)));
}
