// bulkhead-chaos-worker: bulkhead-worker, except that it fails at chosen moments of a lease.
//
// The harness arms a fault by making a file in the folder $BULKHEAD_CHAOS_DIR, named
// "<fault>-<moment>" (kill or stop; received, produced or reported). The first worker that reaches
// the moment takes the file away, so that it fires once, and fails.

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "server/worker/worker.h"

namespace {

const char* MomentName(bulkhead::LeaseMoment moment) {
  switch (moment) {
    case bulkhead::LeaseMoment::kReceived:
      return "received";
    case bulkhead::LeaseMoment::kProduced:
      return "produced";
    case bulkhead::LeaseMoment::kReported:
      return "reported";
  }
  return "";
}

void FailIfArmed(const std::string& folder, bulkhead::LeaseMoment moment) {
  const std::string moment_name = MomentName(moment);
  if (unlink((folder + "/kill-" + moment_name).c_str()) == 0) kill(getpid(), SIGKILL);
  if (unlink((folder + "/stop-" + moment_name).c_str()) == 0) kill(getpid(), SIGSTOP);
}

}  // namespace

int main(int argc, char** argv) {
  constexpr char kFlag[] = "--control-fd=";
  const char* folder = std::getenv("BULKHEAD_CHAOS_DIR");
  if (argc != 2 || std::strncmp(argv[1], kFlag, std::strlen(kFlag)) != 0 || folder == nullptr) {
    std::fprintf(stderr, "bulkhead-chaos-worker is started by bulkheadd in tests/chaos.\n");
    return 2;
  }
  bulkhead::PacketSocket socket(bulkhead::UniqueFd(std::atoi(argv[1] + std::strlen(kFlag))));
  _exit(bulkhead::RunWorker(std::move(socket), [folder = std::string(folder)](auto moment) {
    FailIfArmed(folder, moment);
  }));
}
