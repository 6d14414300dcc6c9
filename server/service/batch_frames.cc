#include "server/service/batch_frames.h"

#include <google/protobuf/io/coded_stream.h>

#include <algorithm>
#include <memory>
#include <string>

#include "server/arena/payload_ranges.h"

namespace bulkhead {
namespace {

using google::protobuf::io::CodedOutputStream;

constexpr uint64_t kMaxDataBytes = uint64_t{1} << 20;

// Field keys of length-delimited fields: number << 3 | 2
// (https://protobuf.dev/programming-guides/encoding).
constexpr uint32_t kResponsePartKey = 15 << 3 | 2;
constexpr uint32_t kPartHeaderKey = 1 << 3 | 2;
constexpr uint32_t kPartOffsetKey = 2 << 3 | 0;
constexpr uint32_t kPartDataKey = 15 << 3 | 2;

// Encodes everything that precedes a message's data.
std::string EncodeHead(const v1::BatchHeader* header, uint64_t offset, uint64_t data_bytes) {
  std::string part;
  {
    google::protobuf::io::StringOutputStream stream(&part);
    CodedOutputStream out(&stream);
    if (header != nullptr) {
      out.WriteVarint32(kPartHeaderKey);
      out.WriteVarint64(header->ByteSizeLong());
      header->SerializeToCodedStream(&out);
    }
    if (offset > 0) {
      out.WriteVarint32(kPartOffsetKey);
      out.WriteVarint64(offset);
    }
    out.WriteVarint32(kPartDataKey);
    out.WriteVarint64(data_bytes);
  }
  std::string head;
  {
    google::protobuf::io::StringOutputStream stream(&head);
    CodedOutputStream out(&stream);
    out.WriteVarint32(kResponsePartKey);
    out.WriteVarint64(part.size() + data_bytes);
  }
  return head + part;
}

using Hold = std::shared_ptr<const SlotHold>;

grpc::Slice ExternalSlice(const Hold& hold, uint64_t offset, uint64_t bytes) {
  // gRPC does not write to slices that it sends; only its interface lacks the const.
  void* data = const_cast<std::byte*>(hold->data() + offset);
  return grpc::Slice(
      data, bytes, [](void* held) { delete static_cast<Hold*>(held); }, new Hold(hold));
}

}  // namespace

uint64_t PayloadBytes(const v1::BatchSchema& schema, uint64_t sample_count) {
  uint64_t bytes = 0;
  for (const PayloadRange& range : PayloadRanges(schema, sample_count)) bytes += range.bytes;
  return bytes;
}

std::deque<grpc::ByteBuffer> FrameBatch(const v1::BatchSchema& schema, ReadyBatch batch) {
  batch.header.set_payload_bytes(PayloadBytes(schema, batch.header.sample_count()));
  std::deque<grpc::ByteBuffer> frames;
  const v1::BatchHeader* header = &batch.header;
  for (const PayloadRange& range : PayloadRanges(schema, batch.header.sample_count())) {
    for (uint64_t done = 0; done < range.bytes;) {
      const uint64_t bytes = std::min(range.bytes - done, kMaxDataBytes);
      const uint64_t offset = range.offset + done;
      grpc::Slice slices[] = {grpc::Slice(EncodeHead(header, offset, bytes)),
                              ExternalSlice(batch.hold, offset, bytes)};
      frames.emplace_back(slices, 2);
      header = nullptr;
      done += bytes;
    }
  }
  // A batch without bytes (every output empty) still has a header.
  if (header != nullptr) {
    grpc::Slice head(EncodeHead(header, 0, 0));
    frames.emplace_back(&head, 1);
  }
  return frames;
}

}  // namespace bulkhead
