// bulkhead-worker: started by bulkheadd with its end of a socketpair; never by hand.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "server/arena/exit_codes.h"
#include "server/worker/allocation_tracker.h"
#include "server/worker/worker.h"

int main(int argc, char** argv) {
  bulkhead::AllocationTracker& tracker = bulkhead::AllocationTracker::Start();
  constexpr char kFlag[] = "--control-fd=";
  if (argc != 2 || std::strncmp(argv[1], kFlag, std::strlen(kFlag)) != 0) {
    std::fprintf(stderr, "bulkhead-worker is started by bulkheadd, not by hand.\n");
    return 2;
  }
  bulkhead::PacketSocket socket(bulkhead::UniqueFd(std::atoi(argv[1] + std::strlen(kFlag))));
  // Threads may still be at work: leave without running destructors.
  _exit(bulkhead::RunWorker(std::move(socket), nullptr, &tracker));
}
