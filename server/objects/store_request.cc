#include "server/objects/store_request.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/base/checksum.h"
#include "server/base/paths/percent_encoding.h"

namespace bulkhead {
namespace {

using Scheme = ObjectUrl::Scheme;

struct Address {
  std::string scheme;  // "https://"
  std::string host;
  std::string path;  // percent-encoded, with its "/"
};

Address SplitEndpoint(absl::string_view endpoint) {
  const size_t host = endpoint.find("://") + 3;
  const size_t path = std::min(endpoint.find('/', host), endpoint.size());
  return {std::string(endpoint.substr(0, host)), std::string(endpoint.substr(host, path - host)),
          std::string(endpoint.substr(path))};
}

// Whether a bucket can be the first part of a host's name. No certificate is valid for one with a
// dot.
bool FitsHostName(absl::string_view bucket) {
  return std::ranges::all_of(
      bucket, [](char c) { return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-'; });
}

std::string AmazonsEndpoint(const std::string& region) {
  return absl::StrCat("https://s3.", region, ".amazonaws.com",
                      absl::StartsWith(region, "cn-") ? ".cn" : "");
}

Address AddressOf(const StoreConfig& config, const ObjectUrl& target, const std::string& region) {
  const bool is_google = target.scheme == Scheme::kGs;
  Address address = SplitEndpoint(is_google                    ? config.gs_endpoint
                                  : config.s3_endpoint.empty() ? AmazonsEndpoint(region)
                                                               : config.s3_endpoint);
  const std::string key = PercentEncoded(target.key, "/");
  if (is_google || config.path_style || !FitsHostName(target.host)) {
    absl::StrAppend(&address.path, "/", target.host, key.empty() ? "" : "/", key);
  } else {
    address.host = absl::StrCat(target.host, ".", address.host);
    absl::StrAppend(&address.path, "/", key);
  }
  return address;
}

// A URL as people write it: with spaces and letters of their languages.
std::string WebUrl(const ObjectUrl& target) {
  std::string url =
      absl::StrCat(target.scheme == Scheme::kHttps ? "https://" : "http://", target.host, "/");
  const auto append = [&url](absl::string_view part) {
    for (const char c : part) {
      const bool is_plain = absl::ascii_isgraph(c) && !absl::StrContains("\"<>\\^`{|}", c);
      absl::StrAppend(&url, is_plain ? std::string(1, c) : PercentEncoded({&c, 1}));
    }
  };
  append(target.key);
  if (!target.query.empty()) url += '?';
  append(target.query);
  return url;
}

}  // namespace

HttpRequest MakeStoreRequest(const StoreConfig& config, const StoreOperation& operation,
                             const std::string& region, const StoreCredentials& credentials,
                             absl::Time now) {
  HttpRequest request;
  request.method = operation.method;
  request.body = operation.body;
  if (!operation.target.is_bucket()) {
    request.url = WebUrl(operation.target);
    request.headers = operation.headers;
    request.follows_redirects = true;
    return request;
  }
  const Address address = AddressOf(config, operation.target, region);
  const std::string query = CanonicalQuery(operation.query);
  request.url =
      absl::StrCat(address.scheme, address.host, address.path, query.empty() ? "" : "?", query);
  if (!credentials.bearer_token.empty()) {
    request.headers = {{"Authorization", absl::StrCat("Bearer ", credentials.bearer_token)}};
  } else if (!credentials.is_anonymous()) {
    const std::string payload_hash = Sha256Hex(operation.body);
    SignedRequest to_sign{operation.method,
                          address.path,
                          operation.query,
                          {{"Host", address.host}, {"X-Amz-Content-Sha256", payload_hash}},
                          payload_hash};
    const bool is_google = operation.target.scheme == Scheme::kGs;
    SignV4(credentials.key, {is_google ? "auto" : region, "s3", now}, to_sign);
    request.headers = std::move(to_sign.headers);
  }
  request.headers.insert(request.headers.end(), operation.headers.begin(), operation.headers.end());
  return request;
}

}  // namespace bulkhead
