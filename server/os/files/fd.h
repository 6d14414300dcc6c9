#pragma once

#include <unistd.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace bulkhead {

// Owns a file descriptor and closes it. Movable, like std::unique_ptr.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  ~UniqueFd() { reset(); }
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    reset(other.release());
    return *this;
  }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1) {
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

// Another descriptor of the same file, close-on-exec.
absl::StatusOr<UniqueFd> DuplicateFd(int fd);

// The status of a failed system call: `what` failed, with the text of `error_number`.
absl::Status SystemError(int error_number, absl::string_view what);

}  // namespace bulkhead
