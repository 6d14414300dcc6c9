#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "bulkhead/loader.h"

namespace bulkhead::client_internal {

// The batches of a loader, from one service or from several. Thread-safe.
class LoaderStream {
 public:
  virtual ~LoaderStream() = default;

  // As Loader's.
  virtual absl::StatusOr<std::optional<Batch>> Next(absl::Duration deadline) = 0;
  virtual void Close() = 0;
  virtual const StreamInfo& info() const = 0;
  virtual Transport transport() const = 0;
  virtual std::string transport_reason() const = 0;
  virtual std::string boot_id() const = 0;
  virtual uint64_t reconnects() const = 0;
  virtual LoaderStats stats() const = 0;
};

}  // namespace bulkhead::client_internal
