#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/base/value_store.h"

namespace bulkhead {

// An open file of a data set whose bytes are read when somebody asks for them. For one thread.
class FileBytes {
 public:
  virtual ~FileBytes() = default;
  // Identifies the file and its state, also for a ValueStore: its name as the data set writes it,
  // size, times, inode and file system. Absent if these would not tell of another change, since the
  // last one is too fresh, or by the kind of file system.
  virtual const std::optional<StoreKey>& state() const = 0;
  virtual uint64_t size_bytes() const = 0;
  // All bytes, which stay valid as long as the record does. The first call reads them and blocks on
  // the file system. FILE_UNREADABLE; FILE_CHANGED if the file is not in that state any more.
  virtual absl::StatusOr<absl::string_view> Get() = 0;
};

// Tells which files need not be read. For one thread.
class KnownFiles {
 public:
  virtual ~KnownFiles() = default;
  // A file in that state (FileBytes::state) will be opened soon. Whether it is likely that its
  // bytes are not needed, since enough is kept of it; that is read ahead then.
  virtual bool Expect(const StoreKey& state) = 0;
};

}  // namespace bulkhead
