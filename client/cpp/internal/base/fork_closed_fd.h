#pragma once

namespace bulkhead::client_internal {

// A descriptor that forked children do not keep, not even without exec. It is for a connection
// whose hang-up must mean that this process closed it. One object owns it; in a forked child the
// object still exists, but its descriptor is closed.
class ForkClosedFd {
 public:
  // A socket, close-on-exec and non-blocking; get() is negative, with errno set, when there is
  // none.
  ForkClosedFd(int domain, int type);
  ~ForkClosedFd();
  ForkClosedFd(const ForkClosedFd&) = delete;
  ForkClosedFd& operator=(const ForkClosedFd&) = delete;

  int get() const { return fd_; }

 private:
  int fd_ = -1;
  int owner_ = 0;  // process
};

}  // namespace bulkhead::client_internal
