#include "server/service/rpc_error.h"

#include <string>

#include "bulkhead/internal/v1/rpc_status.pb.h"
#include "server/base/error.h"

namespace bulkhead {
namespace {

// In a trailer each non-ASCII byte takes three (percent-encoding), and details grow by a third
// (base64).
constexpr size_t kMaxEncodedMessageBytes = 4096;
constexpr size_t kMaxValueBytes = 256;
constexpr size_t kMaxValues = 6;

// Bytes of `text` that fit into `encoded_bytes` when percent-encoded.
size_t FittingBytes(absl::string_view text, size_t encoded_bytes) {
  size_t used = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool plain = text[i] >= ' ' && text[i] <= '~' && text[i] != '%';
    used += plain ? 1 : 3;
    if (used > encoded_bytes) return i;
  }
  return text.size();
}

std::string Cut(absl::string_view text, size_t bytes) {
  if (text.size() <= bytes) return std::string(text);
  while (bytes > 0 && (text[bytes] & 0xC0) == 0x80) --bytes;  // not inside a UTF-8 character
  return std::string(text.substr(0, bytes)) + " …";
}

}  // namespace

grpc::Status ToRpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const auto code = static_cast<grpc::StatusCode>(status.code());
  const std::string message =
      Cut(status.message(), FittingBytes(status.message(), kMaxEncodedMessageBytes));
  const auto info = GetErrorInfo(status);
  if (!info.has_value()) return grpc::Status(code, message);

  internal::v1::RpcErrorInfo detail;
  detail.set_reason(info->reason);
  detail.set_domain("bulkhead");
  for (const auto& [key, value] : info->metadata) {
    if (detail.metadata_size() >= static_cast<int>(kMaxValues)) break;
    (*detail.mutable_metadata())[key] = Cut(value, kMaxValueBytes);
  }
  internal::v1::RpcStatus details;
  details.set_code(static_cast<int>(code));
  internal::v1::RpcAny& any = *details.add_details();
  any.set_type_url("type.googleapis.com/google.rpc.ErrorInfo");
  any.set_value(detail.SerializeAsString());
  return grpc::Status(code, message, details.SerializeAsString());
}

}  // namespace bulkhead
