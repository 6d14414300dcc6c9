#ifndef BULKHEAD_SERVER_OS_SOCKETS_PIPE_H_
#define BULKHEAD_SERVER_OS_SOCKETS_PIPE_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "server/os/files/fd.h"

namespace bulkhead {

// A pipe both of whose ends are close-on-exec and never block: a writer that finds it full loses
// its text.
struct Pipe {
  UniqueFd reading;
  UniqueFd writing;

  static absl::StatusOr<Pipe> Make();
};

// Appends to `text` what stands in a pipe now, until it holds `most_bytes`; the rest is dropped.
void ReadAvailable(int fd, size_t most_bytes, std::string& text);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_OS_SOCKETS_PIPE_H_
