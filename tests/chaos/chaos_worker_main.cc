// bulkhead-chaos-worker: bulkhead-worker, except that it fails at chosen moments of a lease.
//
// The harness arms a fault by setting a byte of the file $BULKHEAD_CHAOS_FILE: to be killed, or
// else stopped, when a lease was received, produced or reported. The first worker that reaches the
// moment takes the byte back, so that it fires once, and fails. The file is mapped before the
// worker enters its sandbox, in which it could write to none.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "server/worker/worker.h"

namespace {

constexpr size_t kMoments = 3;

using Armed = std::atomic<unsigned char>;

size_t Number(bulkhead::LeaseMoment moment) {
  switch (moment) {
    case bulkhead::LeaseMoment::kReceived:
      return 0;
    case bulkhead::LeaseMoment::kProduced:
      return 1;
    case bulkhead::LeaseMoment::kReported:
      return 2;
  }
  return 0;
}

// Null when the file cannot be mapped.
Armed* MapArmed(const char* path) {
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  void* bytes = mmap(nullptr, 2 * kMoments, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return bytes == MAP_FAILED ? nullptr : static_cast<Armed*>(bytes);
}

void FailIfArmed(Armed* armed, bulkhead::LeaseMoment moment) {
  if (armed[Number(moment)].exchange(0) != 0) kill(getpid(), SIGKILL);
  if (armed[kMoments + Number(moment)].exchange(0) != 0) raise(SIGSTOP);
}

}  // namespace

int main(int argc, char** argv) {
  constexpr char kFlag[] = "--control-fd=";
  const char* file = std::getenv("BULKHEAD_CHAOS_FILE");
  Armed* const armed = file == nullptr ? nullptr : MapArmed(file);
  if (argc != 2 || std::strncmp(argv[1], kFlag, std::strlen(kFlag)) != 0 || armed == nullptr) {
    std::fprintf(stderr, "bulkhead-chaos-worker is started by bulkheadd in tests/chaos.\n");
    return 2;
  }
  bulkhead::PacketSocket socket(bulkhead::UniqueFd(std::atoi(argv[1] + std::strlen(kFlag))));
  _exit(
      bulkhead::RunWorker(std::move(socket), [armed](auto moment) { FailIfArmed(armed, moment); }));
}
