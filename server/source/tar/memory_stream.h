#pragma once

#include <algorithm>
#include <optional>

#include "absl/strings/string_view.h"
#include "server/source/records/record_stream.h"

namespace bulkhead {

// Bytes in memory as a stream. Not thread-safe.
class MemoryStream final : public RecordStream {
 public:
  // `bytes` outlive the stream.
  explicit MemoryStream(absl::string_view bytes) : rest_(bytes), size_bytes_(bytes.size()) {}

  absl::StatusOr<size_t> Read(char* to, size_t size) override {
    const size_t got = std::min(size, rest_.size());
    std::copy_n(rest_.data(), got, to);
    rest_.remove_prefix(got);
    return got;
  }
  absl::StatusOr<uint64_t> Skip(uint64_t size) override {
    const uint64_t passed = std::min<uint64_t>(size, rest_.size());
    rest_.remove_prefix(static_cast<size_t>(passed));
    return passed;
  }
  std::optional<uint64_t> remaining() const override { return rest_.size(); }
  uint64_t file_bytes_done() const override { return size_bytes_ - rest_.size(); }

 private:
  absl::string_view rest_;
  const uint64_t size_bytes_;
};

}  // namespace bulkhead
