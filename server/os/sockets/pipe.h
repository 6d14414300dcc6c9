#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "server/os/files/fd.h"

namespace bulkhead {

// A pipe whose ends are close-on-exec and never block. A write to a full pipe is lost.
struct Pipe {
  UniqueFd reading;
  UniqueFd writing;

  static absl::StatusOr<Pipe> Make();
};

// Appends the pipe's present content to `text`, up to `most_bytes`; drops the rest.
void ReadAvailable(int fd, size_t most_bytes, std::string& text);

}  // namespace bulkhead
