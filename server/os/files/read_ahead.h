#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "server/os/files/fd.h"

namespace bulkhead {

// Lets the kernel bring bytes [offset, offset + bytes) of a file into its page cache, in advance.
// Best effort: after some hundred requests nothing happens any more while this thread finds there
// all that it reads. Thread-safe.
void ReadAhead(int fd, uint64_t offset, uint64_t bytes);

// Has the helper, if there is one, bring a whole file into the page cache: in the course of time,
// with a quarter of the disk's, as long as such files of the last ten minutes take less than half
// of the memory that is available. False if it was not told.
bool ReadAheadWhole(int fd);

// Reads ahead for other processes, on threads of its own, which may hang with a disk. The kernel
// counts a page of its cache as memory of the cgroup whose process brought it in. Of the files that
// a worker reads by itself, no more than its quota stays in memory, however much is free, and the
// rest comes from the disk again in each epoch. What this brings in counts for the service's group.
// A client may be malicious: it can have files read ahead that it has open, no more. Thread-safe.
class ReadAheadHelper {
 public:
  // Errors: OUT_OF_THREADS, those of the system.
  static absl::StatusOr<std::unique_ptr<ReadAheadHelper>> Start();
  ~ReadAheadHelper();
  ReadAheadHelper(const ReadAheadHelper&) = delete;
  ReadAheadHelper& operator=(const ReadAheadHelper&) = delete;

  // A socket for LeaveReadAheadTo in one other process. Errors: those of the system.
  absl::StatusOr<UniqueFd> NewClient() const;

 private:
  class State;
  explicit ReadAheadHelper(std::shared_ptr<State> state) : state_(std::move(state)) {}

  const std::shared_ptr<State> state_;
};

// From now on ReadAhead of this process has the helper at `socket` do it. Once per process.
void LeaveReadAheadTo(UniqueFd socket);

}  // namespace bulkhead
