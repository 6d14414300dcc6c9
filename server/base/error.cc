#include "server/base/error.h"

#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace bulkhead {
namespace {

constexpr absl::string_view kInfoPayload = "bulkhead/error_info";
constexpr absl::string_view kSamplePayload = "bulkhead/sample_error";
// Separates the fields of the payload. Reasons and usual file names do not contain it; a metadata
// value that does is cut there, which harms no other.
constexpr char kSeparator = '\0';

void SetErrorInfo(absl::Status& status, const ErrorInfo& info) {
  std::string packed = info.reason;
  for (const auto& [key, value] : info.metadata) {
    packed += kSeparator;
    packed += key;
    packed += kSeparator;
    packed += value.substr(0, value.find(kSeparator));
  }
  status.SetPayload(kInfoPayload, absl::Cord(packed));
}

}  // namespace

absl::Status MakeError(absl::StatusCode code, absl::string_view reason, absl::string_view message,
                       std::map<std::string, std::string> metadata) {
  absl::Status status(code, message);
  SetErrorInfo(status, ErrorInfo{std::string(reason), std::move(metadata)});
  return status;
}

absl::Status SampleError(absl::string_view reason, absl::string_view message,
                         std::map<std::string, std::string> metadata) {
  absl::Status status =
      MakeError(absl::StatusCode::kDataLoss, reason, message, std::move(metadata));
  status.SetPayload(kSamplePayload, absl::Cord("1"));
  return status;
}

bool IsSampleError(const absl::Status& status) {
  return status.GetPayload(kSamplePayload).has_value();
}

std::optional<ErrorInfo> GetErrorInfo(const absl::Status& status) {
  const auto payload = status.GetPayload(kInfoPayload);
  if (!payload.has_value()) return std::nullopt;
  const std::string packed(*payload);
  const std::vector<std::string> fields = absl::StrSplit(packed, kSeparator);
  ErrorInfo info{fields[0], {}};
  for (size_t i = 1; i + 1 < fields.size(); i += 2) info.metadata[fields[i]] = fields[i + 1];
  return info;
}

absl::Status Annotate(const absl::Status& status, absl::string_view prefix,
                      std::map<std::string, std::string> metadata) {
  if (status.ok()) return status;
  absl::Status annotated(status.code(), prefix.empty()
                                            ? std::string(status.message())
                                            : absl::StrCat(prefix, ": ", status.message()));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    annotated.SetPayload(url, payload);
  });
  ErrorInfo info = GetErrorInfo(status).value_or(ErrorInfo{std::string(reason::kInternal), {}});
  info.metadata.merge(metadata);
  SetErrorInfo(annotated, info);
  return annotated;
}

}  // namespace bulkhead
