#pragma once

#include <grpcpp/support/slice.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace bulkhead::client_internal {

// Reads a message that lies in a chain of slices, without joining them. Every read is checked
// against the end; a copy of a reader is a bookmark. The slices must outlive it.
class SliceReader {
 public:
  explicit SliceReader(const std::vector<grpc::Slice>& slices);

  uint64_t remaining() const { return remaining_; }
  // Each returns false, at an unspecified place, when the message ends too early or is malformed.
  bool ReadVarint(uint64_t* value);
  bool Skip(uint64_t count);
  bool CopyTo(void* destination, uint64_t count);
  bool ReadString(uint64_t count, std::string* out);
  // Passes over the value of a field whose tag was read. Groups are malformed.
  bool SkipField(uint64_t tag);
  // Leaves out everything after the next `count` bytes.
  bool Limit(uint64_t count);

 private:
  const std::vector<grpc::Slice>* slices_;
  size_t index_ = 0;
  size_t offset_ = 0;
  uint64_t remaining_ = 0;
};

// A BatchPart as it lies in a received message.
struct PartView {
  std::string header;  // serialized BatchHeader; empty: none
  bool has_header = false;
  uint64_t offset = 0;
  SliceReader data;  // at the first byte of `data`
  uint64_t data_bytes = 0;
};

// A received StreamResponse: either a part, or anything else, serialized for protobuf.
struct ResponseView {
  bool is_part = false;
  PartView part;
  std::string other;
};

// Takes a StreamResponse apart without copying a part's data. INTERNAL (PROTOCOL_VIOLATION) when it
// is malformed. `slices` must outlive the result.
absl::StatusOr<ResponseView> ParseStreamResponse(const std::vector<grpc::Slice>& slices);

}  // namespace bulkhead::client_internal
