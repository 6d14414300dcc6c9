#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/objects/aws_file.h"

namespace bulkhead {

// Which proxy each kind of URL goes through, in curl's words: "http://proxy:3128". Empty: none.
struct ProxyConfig {
  std::string http;      // http_proxy (in lower case only, as curl has it), else ALL_PROXY
  std::string https;     // HTTPS_PROXY, else ALL_PROXY
  std::string none_for;  // NO_PROXY: "host,.domain"
};

// How much is asked of a store, and for how long.
struct StoreLimits {
  size_t connections = 64;
  int attempts = 5;  // of one request, the first one included
  // A request is tried for so long, however many attempts that takes: a store that restarts must
  // end no stream, and no opening.
  absl::Duration patience = absl::Seconds(30);
  absl::Duration connect_timeout = absl::Seconds(10);
  // A request that gets fewer bytes a second than this, for so long, is given up.
  uint64_t slow_bytes_per_second = 1024;
  absl::Duration slow_for = absl::Seconds(10);
  // Of the random wait before the second attempt; doubled with each one, up to the most.
  absl::Duration first_backoff = absl::Milliseconds(100);
  absl::Duration most_backoff = absl::Seconds(20);
  absl::Duration most_retry_after = absl::Seconds(60);
  absl::Duration away =
      absl::Seconds(1);  // without an answer: the store, or the way to it, is gone
  // The shortest wait for a first byte before the same range is asked for once more.
  absl::Duration least_hedge_delay = absl::Seconds(1);
};

// Where stores are and how they are reached, credentials aside (credentials.h).
struct StoreConfig {
  std::string s3_endpoint;  // "http://127.0.0.1:9000"; empty: Amazon's, by region
  std::string gs_endpoint = "https://storage.googleapis.com";
  std::string region = "us-east-1";
  bool path_style = false;  // https://endpoint/bucket/key, else https://bucket.endpoint/key
  std::string ca_bundle;    // a PEM file; empty: libcurl's own
  ProxyConfig proxy;
  StoreLimits limits;

  // From AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, endpoint_url of the profile in ~/.aws/config;
  // GS_ENDPOINT_URL; AWS_REGION, AWS_DEFAULT_REGION, region of the profile; path style with an
  // endpoint unless AWS_S3_ADDRESSING_STYLE=virtual, and without one if it is `path`;
  // AWS_CA_BUNDLE, ca_bundle of the profile, SSL_CERT_FILE; and the variables of proxies.
  // INVALID_ARGUMENT, INVALID_ARGUMENT: a value that is no URL of a host, no region or no style,
  // with the variable's name.
  static absl::StatusOr<StoreConfig> FromEnvironment(const Environment& environment);
};

}  // namespace bulkhead
