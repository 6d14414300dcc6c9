#pragma once

#include <google/protobuf/message.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace bulkhead {

// Fields of one request, at all depths. A parsed message may take forty times its bytes: an empty
// element of a list is two bytes on the wire and a hundred in memory. The largest request that
// makes sense, a specification with a hundred thousand files, has fewer.
inline constexpr uint64_t kMostRequestFields = 120'000;

// INVALID_ARGUMENT (PROTOCOL_VIOLATION): what a client sent, or did not send.
absl::Status ProtocolViolation(absl::string_view what);

// Counts the fields of what a client sent, which may be anything, without keeping any.
// INVALID_ARGUMENT (PROTOCOL_VIOLATION) for more than kMostRequestFields, and for what is not such
// a message.
absl::Status CheckRequest(const grpc::ByteBuffer& bytes, const google::protobuf::Descriptor* type);
// Parses what passes CheckRequest. Errors: those of CheckRequest.
absl::Status ParseRequest(const grpc::ByteBuffer& bytes, google::protobuf::Message& request);

template <typename Message>
grpc::ByteBuffer Serialize(const Message& message) {
  grpc::ByteBuffer buffer;
  bool own_buffer = false;
  grpc::SerializationTraits<Message>::Serialize(message, &buffer, &own_buffer);
  return buffer;
}

}  // namespace bulkhead
