#include "server/objects/retry.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "server/base/random.h"

namespace bulkhead {

bool IsTransient(const HttpResponse& response, absl::string_view store_code) {
  switch (response.fault) {
    case HttpFault::kNone:
      break;
    case HttpFault::kName:
    case HttpFault::kConnect:
    case HttpFault::kSlow:
    case HttpFault::kBroken:
    case HttpFault::kOther:
      return true;
    case HttpFault::kTls:
    case HttpFault::kTooLarge:
    case HttpFault::kRedirect:
    case HttpFault::kStopped:
      return false;
  }
  switch (response.head.code) {
    case 408:
    case 429:
    case 500:
    case 502:
    case 503:
    case 504:
      return true;
    default:
      return store_code == "RequestTimeout" || store_code == "SlowDown" ||
             store_code == "InternalError";
  }
}

absl::Duration RetryAfter(const HttpHead& head, absl::Time now) {
  const std::string value = head.Header("retry-after");
  int64_t seconds = 0;
  if (absl::SimpleAtoi(value, &seconds)) {
    return absl::Seconds(std::clamp<int64_t>(seconds, 0, 86'400));
  }
  absl::Time date;
  std::string error;
  if (value.empty() || !absl::ParseTime("%a, %d %b %Y %H:%M:%S GMT", value, &date, &error)) {
    return absl::ZeroDuration();
  }
  return std::max(absl::ZeroDuration(), date - now);
}

absl::Duration Backoff::After(int attempt, absl::Duration asked_for) {
  state_ = MixBits(state_, static_cast<uint64_t>(attempt));
  const double unit = static_cast<double>(state_ >> 11) / static_cast<double>(uint64_t{1} << 53);
  const int doublings = std::clamp(attempt - 1, 0, 30);
  const absl::Duration most =
      std::min(limits_.most_backoff, limits_.first_backoff * (int64_t{1} << doublings));
  return std::max(most * unit, std::min(asked_for, limits_.most_retry_after));
}

}  // namespace bulkhead
