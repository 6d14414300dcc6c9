#include "client/cpp/internal/base/error.h"

#include <optional>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "bulkhead/internal/v1/rpc_status.pb.h"

namespace bulkhead {
namespace {

using internal::v1::RpcErrorInfo;

constexpr char kPayloadUrl[] = "type.googleapis.com/google.rpc.ErrorInfo";

// What to do when the service is gone; by Caller.
constexpr absl::string_view kAdvice[] = {
    "; check that bulkheadd runs there",
    "; check that bulkheadd runs there, then go on from the last cursor",
    "; it was started for this job, and the next loader starts another; go on from the last cursor",
};

absl::string_view AdviceFor(client_internal::Caller caller) {
  return kAdvice[static_cast<int>(caller)];
}

std::optional<RpcErrorInfo> InfoOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayloadUrl);
  if (!payload.has_value()) return std::nullopt;
  RpcErrorInfo info;
  if (!info.ParseFromString(std::string(*payload))) return std::nullopt;
  return info;
}

}  // namespace

std::string ErrorReason(const absl::Status& status) {
  const auto info = InfoOf(status);
  return info.has_value() ? info->reason() : "";
}

std::map<std::string, std::string> ErrorMetadata(const absl::Status& status) {
  const auto info = InfoOf(status);
  if (!info.has_value()) return {};
  return {info->metadata().begin(), info->metadata().end()};
}

namespace client_internal {

absl::Status MakeClientError(absl::StatusCode code, absl::string_view reason,
                             absl::string_view message,
                             std::map<std::string, std::string> metadata) {
  RpcErrorInfo info;
  info.set_reason(std::string(reason));
  info.set_domain("bulkhead");
  info.mutable_metadata()->insert(metadata.begin(), metadata.end());
  absl::Status status(code, message);
  status.SetPayload(kPayloadUrl, absl::Cord(info.SerializeAsString()));
  return status;
}

absl::Status ProtocolError(absl::string_view message) {
  return MakeClientError(absl::StatusCode::kInternal, client_reason::kProtocolViolation,
                         absl::StrCat("the service broke the protocol: ", message,
                                      "; client and service may be of different versions"));
}

std::string WithoutAdvice(const absl::Status& lost) {
  return absl::StrReplaceAll(
      lost.message(), {{AdviceFor(Caller::kStream), ""}, {AdviceFor(Caller::kOwnStream), ""}});
}

absl::Status ClosedError() {
  return MakeClientError(absl::StatusCode::kCancelled, client_reason::kLoaderClosed,
                         "the loader was closed");
}

absl::Status ForkedError() {
  return MakeClientError(absl::StatusCode::kFailedPrecondition, client_reason::kForked,
                         "this process was forked from one that used a loader, and neither the "
                         "loader nor gRPC works here; fork before the first loader is opened, or "
                         "start another program (exec)");
}

absl::Status FromRpcStatus(const grpc::Status& status, absl::string_view target, Caller caller) {
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  internal::v1::RpcStatus details;
  if (!status.error_details().empty() && details.ParseFromString(status.error_details())) {
    for (const auto& detail : details.details()) {
      RpcErrorInfo info;
      if (!absl::EndsWith(detail.type_url(), "/google.rpc.ErrorInfo") ||
          !info.ParseFromString(detail.value())) {
        continue;
      }
      return MakeClientError(code, info.reason(), status.error_message(),
                             {info.metadata().begin(), info.metadata().end()});
    }
  }
  const std::map<std::string, std::string> metadata = {{"target", std::string(target)}};
  // A service whose memory for requests is full ends calls of any client.
  const bool reset = code == absl::StatusCode::kResourceExhausted &&
                     absl::StrContains(status.error_message(), "RST_STREAM");
  switch (reset ? absl::StatusCode::kUnavailable : code) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kUnknown:  // gRPC's word when the connection goes while a call begins
      return MakeClientError(
          absl::StatusCode::kUnavailable, client_reason::kServiceUnavailable,
          absl::StrCat("the service at ", target, " cannot be reached or has ended (",
                       status.error_message(), ")", AdviceFor(caller)),
          metadata);
    case absl::StatusCode::kDeadlineExceeded:
      return MakeClientError(code, client_reason::kDeadlineExceeded,
                             absl::StrCat("the service at ", target, " did not answer in time"),
                             metadata);
    case absl::StatusCode::kUnimplemented:
      return MakeClientError(
          code, client_reason::kProtocolViolation,
          absl::StrCat("what listens at ", target, " is not a Bulkhead service (",
                       status.error_message(), ")"),
          metadata);
    default:
      return MakeClientError(
          code, absl::StatusCodeToString(code),
          absl::StrCat("the service at ", target, " failed: ", status.error_message()), metadata);
  }
}

}  // namespace client_internal
}  // namespace bulkhead
