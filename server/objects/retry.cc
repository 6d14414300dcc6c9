#include "server/objects/retry.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "server/base/random.h"

namespace bulkhead {

bool IsTransient(const HttpResponse& response, absl::string_view store_code) {
  constexpr HttpFault kForGood[] = {HttpFault::kTls, HttpFault::kTooLarge, HttpFault::kRedirect,
                                    HttpFault::kStopped};
  constexpr int kTransientAnswers[] = {408, 429, 500, 502, 503, 504};
  if (response.fault != HttpFault::kNone) return std::ranges::count(kForGood, response.fault) == 0;
  return std::ranges::count(kTransientAnswers, response.head.code) > 0 ||
         store_code == "RequestTimeout" || store_code == "SlowDown" ||
         store_code == "InternalError";
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
