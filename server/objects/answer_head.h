#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "server/objects/curl.h"

namespace bulkhead {

// What the headers of an answer say of an object.

// Content-Range of an answer 206: "bytes 0-9/100", or "bytes 0-9/*" without a total.
struct ContentRange {
  uint64_t begin = 0;
  uint64_t end = 0;  // behind the last byte
  std::optional<uint64_t> total;
};
std::optional<ContentRange> ParseContentRange(absl::string_view text);

// The size of the whole object: of an answer 206 the total of its range, else Content-Length.
std::optional<uint64_t> WholeSize(const HttpHead& head);

// Last-Modified; 0: none.
int64_t ModifiedNanos(const HttpHead& head);

// An ETag without its quotes and the mark of a weak one, for comparing.
absl::string_view BareEtag(absl::string_view etag);
// Whether it identifies bytes, so that If-Match may have it.
bool IsStrongEtag(absl::string_view etag);

}  // namespace bulkhead
