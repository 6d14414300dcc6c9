#include "server/objects/answer_head.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"

namespace bulkhead {

std::optional<ContentRange> ParseContentRange(absl::string_view text) {
  const size_t dash = text.find('-');
  const size_t slash = text.find('/');
  if (!absl::ConsumePrefix(&text, "bytes ") || dash == text.npos || slash == text.npos ||
      slash < dash) {
    return std::nullopt;
  }
  const size_t start = 6;  // of the numbers
  ContentRange range;
  if (dash < start || !absl::SimpleAtoi(text.substr(0, dash - start), &range.begin) ||
      !absl::SimpleAtoi(text.substr(dash - start + 1, slash - dash - 1), &range.end) ||
      range.end < range.begin || range.end == UINT64_MAX) {
    return std::nullopt;
  }
  ++range.end;
  const absl::string_view total = text.substr(slash - start + 1);
  if (total == "*") return range;
  if (!absl::SimpleAtoi(total, &range.total.emplace())) return std::nullopt;
  return range;
}

std::optional<uint64_t> WholeSize(const HttpHead& head) {
  if (head.code == 206) {
    const std::optional<ContentRange> range = ParseContentRange(head.Header("content-range"));
    return range.has_value() ? range->total : std::nullopt;
  }
  uint64_t size = 0;
  if (!absl::SimpleAtoi(head.Header("content-length"), &size)) return std::nullopt;
  return size;
}

int64_t ModifiedNanos(const HttpHead& head) {
  absl::Time time;
  if (!absl::ParseTime("%a, %d %b %Y %H:%M:%S GMT", head.Header("last-modified"), &time, nullptr)) {
    return 0;
  }
  return absl::ToUnixNanos(time);
}

absl::string_view BareEtag(absl::string_view etag) {
  absl::ConsumePrefix(&etag, "W/");
  absl::ConsumePrefix(&etag, "\"");
  absl::ConsumeSuffix(&etag, "\"");
  return etag;
}

bool IsStrongEtag(absl::string_view etag) {
  return !BareEtag(etag).empty() && !absl::StartsWith(etag, "W/");
}

}  // namespace bulkhead
