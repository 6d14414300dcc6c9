#include "client/cpp/internal/base/fork_closed_fd.h"

#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <mutex>
#include <set>

namespace bulkhead::client_internal {
namespace {

// The mutex is held over fork, so that a child finds the set whole and every open one in it.
struct OpenFds {
  std::mutex mutex;
  std::set<int> fds;
};

// Never destroyed: a process may fork while it ends.
OpenFds& TheOpenFds() {
  static OpenFds* const open = [] {
    pthread_atfork([] { TheOpenFds().mutex.lock(); }, [] { TheOpenFds().mutex.unlock(); },
                   [] {
                     OpenFds& inherited = TheOpenFds();
                     for (const int fd : inherited.fds) close(fd);
                     inherited.fds.clear();
                     inherited.mutex.unlock();
                   });
    return new OpenFds;
  }();
  return *open;
}

}  // namespace

ForkClosedFd::ForkClosedFd(int domain, int type) : owner_(getpid()) {
  OpenFds& open = TheOpenFds();
  std::lock_guard<std::mutex> lock(open.mutex);
  fd_ = socket(domain, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd_ >= 0) open.fds.insert(fd_);
}

ForkClosedFd::~ForkClosedFd() {
  if (fd_ < 0 || owner_ != getpid()) return;
  OpenFds& open = TheOpenFds();
  std::lock_guard<std::mutex> lock(open.mutex);
  open.fds.erase(fd_);
  close(fd_);
}

}  // namespace bulkhead::client_internal
