#include "server/service/raw_messages.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"

namespace bulkhead {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;

// As protobuf's own limit.
constexpr int kMostDepth = 100;

// Counts the fields of a message without keeping any of them
// (https://protobuf.dev/programming-guides/encoding).
class FieldCounter {
 public:
  explicit FieldCounter(google::protobuf::io::ZeroCopyInputStream* bytes) : in_(bytes) {}

  // False if there are more than kMostRequestFields, or the bytes are not a message. The caller's
  // parser reports both.
  bool Count(const Descriptor* type, int depth = 0) {
    while (const uint32_t tag = in_.ReadTag()) {
      if (!Take(1) || !CountField(type, tag, depth)) return false;
    }
    return in_.ConsumedEntireMessage();
  }
  bool too_many() const { return too_many_; }

 private:
  bool CountField(const Descriptor* type, uint32_t tag, int depth) {
    uint64_t number = 0;
    switch (WireFormatLite::GetTagWireType(tag)) {
      case WireFormatLite::WIRETYPE_VARINT:
        return in_.ReadVarint64(&number);
      case WireFormatLite::WIRETYPE_FIXED64:
        return in_.Skip(8);
      case WireFormatLite::WIRETYPE_FIXED32:
        return in_.Skip(4);
      case WireFormatLite::WIRETYPE_LENGTH_DELIMITED:
        return CountContent(type->FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag)), depth);
      default:
        return false;  // a group, which no message here has
    }
  }

  // `field`: null if unknown.
  bool CountContent(const FieldDescriptor* field, int depth) {
    int size = 0;
    if (!in_.ReadVarintSizeAsInt(&size)) return false;
    if (field == nullptr || field->type() != FieldDescriptor::TYPE_MESSAGE) {
      const bool packed = field != nullptr && field->is_packable();
      return (!packed || Take(static_cast<uint64_t>(size))) && in_.Skip(size);
    }
    if (depth == kMostDepth) return false;
    const auto limit = in_.PushLimit(size);
    const bool counted = Count(field->message_type(), depth + 1);
    in_.PopLimit(limit);
    return counted;
  }

  bool Take(uint64_t fields) {
    too_many_ = fields > left_;
    if (!too_many_) left_ -= fields;
    return !too_many_;
  }

  google::protobuf::io::CodedInputStream in_;
  uint64_t left_ = kMostRequestFields;
  bool too_many_ = false;
};

absl::Status Unparsable() { return ProtocolViolation("a message could not be parsed"); }

}  // namespace

absl::Status ProtocolViolation(absl::string_view what) {
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kProtocolViolation, what);
}

absl::Status CheckRequest(const grpc::ByteBuffer& bytes, const google::protobuf::Descriptor* type) {
  grpc::ByteBuffer counted = bytes;  // shares them
  grpc::ProtoBufferReader reader(&counted);
  FieldCounter counter(&reader);
  const bool sound = reader.status().ok() && counter.Count(type);
  if (counter.too_many()) {
    return ProtocolViolation(
        absl::StrCat("the request has more than ", kMostRequestFields, " fields"));
  }
  return sound ? absl::OkStatus() : Unparsable();
}

absl::Status ParseRequest(const grpc::ByteBuffer& bytes, google::protobuf::Message& request) {
  BULKHEAD_RETURN_IF_ERROR(CheckRequest(bytes, request.GetDescriptor()));
  grpc::ByteBuffer parsed = bytes;
  grpc::ProtoBufferReader source(&parsed);
  const bool is_one = source.status().ok() && request.ParseFromZeroCopyStream(&source);
  return is_one ? absl::OkStatus() : Unparsable();
}

}  // namespace bulkhead
