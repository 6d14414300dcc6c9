#include "client/cpp/internal/rpc/wire.h"

#include <algorithm>

#include "client/cpp/internal/base/error.h"
#include "client/cpp/internal/base/streaming_copy.h"

namespace bulkhead::client_internal {
namespace {

enum WireType : uint64_t { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };

constexpr uint64_t Tag(uint64_t field, WireType type) { return field << 3 | type; }

// Field numbers of StreamResponse and BatchPart (loader.proto).
constexpr uint64_t kPartTag = Tag(15, kLengthDelimited);
constexpr uint64_t kHeaderTag = Tag(1, kLengthDelimited);
constexpr uint64_t kOffsetTag = Tag(2, kVarint);
constexpr uint64_t kDataTag = Tag(15, kLengthDelimited);
// A header is a dozen varints.
constexpr uint64_t kMaxHeaderBytes = 4096;

bool ParsePart(SliceReader reader, PartView* part) {
  while (reader.remaining() > 0) {
    uint64_t tag = 0;
    uint64_t length = 0;
    if (!reader.ReadVarint(&tag)) return false;
    if (tag == kHeaderTag) {
      if (!reader.ReadVarint(&length) || length > kMaxHeaderBytes ||
          !reader.ReadString(length, &part->header)) {
        return false;
      }
      part->has_header = true;
    } else if (tag == kOffsetTag) {
      if (!reader.ReadVarint(&part->offset)) return false;
    } else if (tag == kDataTag) {
      if (!reader.ReadVarint(&length)) return false;
      part->data = reader;
      part->data_bytes = length;
      if (!reader.Skip(length)) return false;
    } else if (!reader.SkipField(tag)) {
      return false;
    }
  }
  return true;
}

}  // namespace

SliceReader::SliceReader(const std::vector<grpc::Slice>& slices) : slices_(&slices) {
  for (const grpc::Slice& slice : slices) remaining_ += slice.size();
}

bool SliceReader::ReadVarint(uint64_t* value) {
  uint64_t result = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    uint8_t byte = 0;
    if (!CopyTo(&byte, 1)) return false;
    result |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) {
      if (shift == 63 && byte > 1) return false;
      *value = result;
      return true;
    }
  }
  return false;
}

bool SliceReader::Skip(uint64_t count) {
  if (count > remaining_) return false;
  remaining_ -= count;
  while (count > 0) {
    const uint64_t here = std::min<uint64_t>(count, (*slices_)[index_].size() - offset_);
    offset_ += here;
    count -= here;
    if (offset_ == (*slices_)[index_].size()) {
      ++index_;
      offset_ = 0;
    }
  }
  return true;
}

bool SliceReader::CopyTo(void* destination, uint64_t count) {
  if (count > remaining_) return false;
  remaining_ -= count;
  auto* out = static_cast<uint8_t*>(destination);
  while (count > 0) {
    const grpc::Slice& slice = (*slices_)[index_];
    const uint64_t here = std::min<uint64_t>(count, slice.size() - offset_);
    if (here > 0) StreamingCopy(out, slice.begin() + offset_, here);
    out += here;
    offset_ += here;
    count -= here;
    if (offset_ == slice.size()) {
      ++index_;
      offset_ = 0;
    }
  }
  return true;
}

bool SliceReader::ReadString(uint64_t count, std::string* out) {
  if (count > remaining_) return false;
  out->resize(count);
  return CopyTo(out->data(), count);
}

bool SliceReader::SkipField(uint64_t tag) {
  uint64_t ignored = 0;
  if (tag >> 3 == 0) return false;
  switch (tag & 7) {
    case kVarint:
      return ReadVarint(&ignored);
    case kFixed64:
      return Skip(8);
    case kLengthDelimited:
      return ReadVarint(&ignored) && Skip(ignored);
    case kFixed32:
      return Skip(4);
    default:
      return false;
  }
}

bool SliceReader::Limit(uint64_t count) {
  if (count > remaining_) return false;
  remaining_ = count;
  return true;
}

absl::StatusOr<ResponseView> ParseStreamResponse(const std::vector<grpc::Slice>& slices) {
  SliceReader reader(slices);
  ResponseView view{.part = PartView{.data = reader}};
  SliceReader whole = reader;
  while (reader.remaining() > 0) {
    uint64_t tag = 0;
    if (!reader.ReadVarint(&tag)) return ProtocolError("malformed StreamResponse");
    if (tag != kPartTag) {
      if (!reader.SkipField(tag)) return ProtocolError("malformed StreamResponse");
      continue;
    }
    uint64_t length = 0;
    SliceReader body = reader;
    if (!body.ReadVarint(&length)) return ProtocolError("malformed BatchPart");
    reader = body;
    if (!body.Limit(length) || !ParsePart(body, &view.part) || !reader.Skip(length)) {
      return ProtocolError("malformed BatchPart");
    }
    view.is_part = true;
  }
  if (!view.is_part) whole.ReadString(whole.remaining(), &view.other);
  return view;
}

}  // namespace bulkhead::client_internal
