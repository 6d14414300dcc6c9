// Takes memory, for tests of limits: one just under, one just over each.
//
//   memory_hog data ROOM TAKE      lets itself have ROOM bytes of private memory, then takes TAKE
//   memory_hog touch TAKE          waits for a byte on descriptor 3, then touches TAKE bytes of its
//   own memory_hog share TAKE          the same with shared memory, which RLIMIT_DATA does not
//   count memory_hog cache TAKE          waits, then writes a file of TAKE bytes in the current
//   folder and
//                                  reads it back
//   memory_hog threads COUNT       waits, then starts threads
//
// Exit codes: 0: it got them; 3: they were refused.

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "server/os/process/process_usage.h"

namespace {

constexpr int kGranted = 0;
constexpr int kRefused = 3;
constexpr int kFailed = 4;

int Touch(size_t bytes, int sharing) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return kRefused;
  std::memset(memory, 1, bytes);
  return kGranted;
}

int TakeUnderLimit(size_t room, size_t take) {
  const auto usage = bulkhead::ReadProcessUsageFast(getpid());
  if (!usage.ok() || !bulkhead::LimitDataMemory(usage->data_bytes + room).ok()) return kFailed;
  return Touch(take, MAP_PRIVATE);
}

int FillPageCache(size_t bytes) {
  char name[] = "memory-hog-XXXXXX";
  const int fd = mkstemp(name);
  if (fd < 0 || unlink(name) != 0) return kFailed;
  std::vector<char> block(size_t{1} << 20, 'x');
  for (size_t done = 0; done < bytes; done += block.size()) {
    if (write(fd, block.data(), block.size()) < 0) return kRefused;
  }
  for (size_t done = 0; done < bytes; done += block.size()) {
    if (pread(fd, block.data(), block.size(), static_cast<off_t>(done)) < 0) return kRefused;
  }
  return kGranted;
}

bool AwaitGo() {
  char go;
  return read(3, &go, 1) == 1;
}

int StartThreads(size_t count) {
  try {
    for (size_t i = 0; i < count; ++i) std::thread([] { pause(); }).detach();
  } catch (const std::system_error&) {
    return kRefused;
  }
  return kGranted;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 2 ? argv[1] : "";
  const size_t first = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 0;
  if (mode == "data" && argc == 4) {
    _exit(TakeUnderLimit(first, std::strtoull(argv[3], nullptr, 10)));
  }
  if (argc != 3 || !AwaitGo()) _exit(kFailed);
  if (mode == "touch") _exit(Touch(first, MAP_PRIVATE));
  if (mode == "share") _exit(Touch(first, MAP_SHARED));
  if (mode == "cache") _exit(FillPageCache(first));
  if (mode == "threads") _exit(StartThreads(first));
  _exit(kFailed);
}
