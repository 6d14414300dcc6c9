#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/base/paths/object_url.h"
#include "server/objects/curl.h"
#include "server/objects/store_xml.h"

namespace bulkhead {

// What a request was for, as its error says it.
struct RequestFacts {
  std::string shown;  // ShownUrl of the object or pattern
  int attempts = 1;
  ObjectUrl::Scheme scheme = ObjectUrl::Scheme::kS3;
  bool writes = false;           // what was asked for
  std::string credentials_from;  // StoreCredentials::from
  std::string region;            // of the bucket, if the answer has one that was not asked
};

// An error with FILE_UNREADABLE unless another reason is named:
//   NOT_FOUND            FILE_NOT_FOUND: no such object, no such bucket
//   PERMISSION_DENIED    the store refuses the credentials, or asks for some
//   FAILED_PRECONDITION  FILE_CHANGED: 412, 416; the bucket is in another region; an answer that
//                        another attempt would not change; a certificate that is not trusted
//   UNAVAILABLE          all attempts failed for causes that pass
// The words have the store's code, never its message or the query of a URL.
absl::Status StoreError(const RequestFacts& facts, const HttpResponse& response,
                        const StoreErrorBody& error);

// UNAVAILABLE: all attempts failed, the last one as `cause` says.
absl::Status GaveUp(const RequestFacts& facts, absl::string_view cause);

// FILE_UNREADABLE with `code`.
absl::Status Unreadable(absl::StatusCode code, absl::string_view shown, absl::string_view why);

}  // namespace bulkhead
