#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "server/data/found_objects.h"
#include "server/source/source.h"
#include "tools/local/parts_ahead.h"

namespace bulkhead::tools {

// Reads the records of a source, which may be in object stores. For one thread.
class SourceReading {
 public:
  // `objects`: those of the source; null or none: it has files alone. `source` must outlive this.
  SourceReading(const Source& source, std::shared_ptr<const FoundObjects> objects);
  SourceReading(const SourceReading&) = delete;
  SourceReading& operator=(const SourceReading&) = delete;

  // As PartsAhead::WillRead.
  void WillRead(uint64_t first, uint64_t end);
  // As Source::Read, without NOT_FETCHED; also the errors of the store.
  absl::Status Read(uint64_t index, Record& record);

 private:
  const Source& source_;
  const std::unique_ptr<ReadContext> context_;
  std::optional<PartsAhead> ahead_;  // absent: all are files
};

}  // namespace bulkhead::tools
