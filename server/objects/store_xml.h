#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace bulkhead {

// The XML that stores answer. It is untrusted: a document type (and with it entities), more than 16
// levels, or a text of more than 16 KiB makes it invalid. Who receives it bounds its size.

// The body of an error: the root is <Error>, or <ErrorResponse> of STS.
struct StoreErrorBody {
  std::string code;    // "NoSuchKey"; only letters, digits, '.', '-' and '_'
  std::string region;  // of AuthorizationHeaderMalformed and the like; often empty
};
// Absent if `xml` is none, as when a proxy answered.
std::optional<StoreErrorBody> ParseStoreError(absl::string_view xml);

struct ListedObject {
  std::string key;
  uint64_t size_bytes = 0;
  std::string etag;      // as in the header ETag, with its quotes
  int64_t mtime_ns = 0;  // in whole seconds, as the header Last-Modified has it
};

// One page of ListObjectsV2.
struct Listing {
  std::vector<ListedObject> objects;
  std::vector<std::string>
      prefixes;            // what stands for several keys, where a delimiter was asked for
  std::string next_token;  // of the next page; empty: this is the last one
};
// DATA_LOSS: `xml` is no such page, or an error in an answer 200; then the message has its code.
absl::StatusOr<Listing> ParseListing(absl::string_view xml);

// The texts that stand directly in the elements of `xml`, by the element's name; of several the
// first. Absent: `xml` is invalid.
std::optional<std::map<std::string, std::string>> ParseXmlTexts(absl::string_view xml);

}  // namespace bulkhead
