#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace bulkhead::client_internal {

struct HostAndPort {
  std::string host;
  std::string port;
};

// Of "host:port" or "[::1]:port" with a port from 1 to 65535; nothing for another text.
std::optional<HostAndPort> SplitPort(absl::string_view text);

// INVALID_ARGUMENT for an invalid address: gRPC would take port 65537 for port 1, and any other
// text for a name to look up. Its twin is is_address in
// client/python/bulkhead/_service/endpoint.py.
absl::Status CheckAddress(absl::string_view target);

}  // namespace bulkhead::client_internal
