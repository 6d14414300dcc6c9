#pragma once

#include <string>

#include "absl/time/time.h"
#include "server/base/paths/object_url.h"
#include "server/objects/credentials/credentials.h"
#include "server/objects/curl.h"
#include "server/objects/store_config.h"

namespace bulkhead {

// What is asked of a store.
struct StoreOperation {
  std::string method = "GET";  // GET, HEAD or PUT
  ObjectUrl target;            // s3, gs: an empty key stands for the bucket itself
  NamedValues query;           // s3, gs
  NamedValues headers;         // such as Range; not signed, since proxies may change them
  std::string body;            // of PUT; signed
};

// The request for `operation`: its URL by `config`, and signed for `region` unless `credentials`
// are none. Of http and https nothing is signed, and redirects are followed.
HttpRequest MakeStoreRequest(const StoreConfig& config, const StoreOperation& operation,
                             const std::string& region, const StoreCredentials& credentials,
                             absl::Time now);

}  // namespace bulkhead
