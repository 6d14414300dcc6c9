#include "server/service/rpc_error.h"

#include <string>

#include "bulkhead/internal/v1/rpc_status.pb.h"
#include "server/base/error.h"

namespace bulkhead {
namespace {

constexpr size_t kMaxMessageBytes = 4096;
constexpr size_t kMaxValueBytes = 512;

std::string Cut(absl::string_view text, size_t bytes) {
  if (text.size() <= bytes) return std::string(text);
  while (bytes > 0 && (text[bytes] & 0xC0) == 0x80) --bytes;  // not inside a UTF-8 character
  return std::string(text.substr(0, bytes)) + " …";
}

}  // namespace

grpc::Status ToRpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const auto code = static_cast<grpc::StatusCode>(status.code());
  const std::string message = Cut(status.message(), kMaxMessageBytes);
  const auto info = GetErrorInfo(status);
  if (!info.has_value()) return grpc::Status(code, message);

  internal::v1::RpcErrorInfo detail;
  detail.set_reason(info->reason);
  detail.set_domain("bulkhead");
  for (const auto& [key, value] : info->metadata) {
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
