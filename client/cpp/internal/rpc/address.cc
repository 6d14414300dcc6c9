#include "client/cpp/internal/rpc/address.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/internal/base/error.h"

namespace bulkhead::client_internal {

std::optional<HostAndPort> SplitPort(absl::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == 0 || colon == absl::string_view::npos) return std::nullopt;
  const absl::string_view digits = text.substr(colon + 1);
  uint32_t port = 0;
  if (!std::all_of(digits.begin(), digits.end(), absl::ascii_isdigit) ||
      !absl::SimpleAtoi(digits, &port) || port == 0 || port > 65535) {
    return std::nullopt;
  }
  const absl::string_view host = text.substr(0, colon);
  const bool bracketed = absl::StartsWith(host, "[") && absl::EndsWith(host, "]");
  if (!bracketed && host.find_first_of(" :/[]") != absl::string_view::npos) return std::nullopt;
  return HostAndPort{std::string(host), std::string(digits)};
}

absl::Status CheckAddress(absl::string_view target) {
  const bool is_unix = absl::StartsWith(target, "unix:") && target != "unix:";
  if (is_unix || SplitPort(target).has_value()) return absl::OkStatus();
  for (const char* scheme : {"dns:", "ipv4:", "ipv6:"}) {  // what gRPC itself would make of them
    if (absl::StartsWith(target, scheme)) return absl::OkStatus();
  }
  return MakeClientError(
      absl::StatusCode::kInvalidArgument, client_reason::kInvalidArgument,
      absl::StrCat("target is \"host:port\", \"unix:/path\" or a target file (*.yaml), not '",
                   target, "'"));
}

}  // namespace bulkhead::client_internal
