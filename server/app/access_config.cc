#include "server/app/access_config.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "server/app/mistake.h"
#include "server/base/error.h"
#include "server/metrics/metrics_server.h"
#include "server/service/access/access_rights.h"
#include "server/service/access/tls_files.h"

namespace bulkhead {
namespace {

bool IsLoopback(const std::string& host) {
  return host == "localhost" || absl::StartsWith(host, "127.") || host == "[::1]";
}

// The first given option that needs TLS; empty: none.
std::string TlsOption(const DaemonOptions& options) {
  if (!options.tls_cert.empty()) return "--tls-cert";
  if (!options.tls_key.empty()) return "--tls-key";
  if (!options.tls_client_ca.empty()) return "--tls-client-ca";
  if (!options.allow_stream.empty()) return "--allow-stream";
  if (!options.allow_status.empty()) return "--allow-status";
  if (!options.allow_operate.empty()) return "--allow-operate";
  if (!options.allow_code.empty()) return "--allow-code";
  if (!options.token_instead_of_certificate.empty()) return "--token-instead-of-certificate";
  if (!options.token_rights.empty()) return "--token-rights";
  return "";
}

absl::Status CheckAddress(const DaemonOptions& options, const std::string& address) {
  const std::string tls = TlsOption(options);
  if (absl::StartsWith(address, "unix:")) {
    if (absl::StripPrefix(absl::StripPrefix(address, "unix:"), "//").empty()) {
      return Mistake("--listen ", address, ": the path is missing; write unix:/path");
    }
    if (tls.empty()) return absl::OkStatus();
    return Mistake(tls, " is for TCP, and the service listens on ", address,
                   ", which only its own user can reach; give --listen HOST:PORT, or leave it out");
  }
  const size_t colon = address.rfind(':');
  uint32_t port = 0;
  if (colon == std::string::npos || !absl::SimpleAtoi(address.substr(colon + 1), &port) ||
      port > 65535) {
    return Mistake(
        "--listen ", address,
        ": write unix:/path, or an address with a port from 0 to 65535, such as 127.0.0.1:7077");
  }
  const bool loopback = IsLoopback(address.substr(0, colon));
  if (!tls.empty()) {
    if (!options.insecure_tcp) return absl::OkStatus();
    return Mistake("--insecure-tcp is for TCP without TLS, and ", tls,
                   " for TCP with it; leave one of them out");
  }
  if (!loopback) {
    return Mistake("--listen ", address,
                   ": beyond the loopback only TLS is spoken, and clients must show who "
                   "they are; give --tls-cert, --tls-key, --tls-client-ca and "
                   "--allow-stream NAME (docs/security.md), or listen on unix:/path");
  }
  if (options.insecure_tcp && options.allow_datasets) {
    return Mistake(
        "--allow-datasets with --insecure-tcp: every local user could run code as the service's; "
        "listen on unix:/path, or give certificates (docs/security.md)");
  }
  if (!options.insecure_tcp) {
    return Mistake("--listen ", address,
                   ": any local user could connect there; say --insecure-tcp if that is "
                   "meant, or listen on unix:/path");
  }
  return absl::OkStatus();
}

absl::Status CheckMetrics(const DaemonOptions& options) {
  if (options.metrics.empty()) return absl::OkStatus();
  BULKHEAD_RETURN_IF_ERROR(CheckMetricsAddress(options.metrics));
  const bool loopback = IsLoopback(options.metrics.substr(0, options.metrics.rfind(':')));
  if (loopback || options.insecure_metrics) return absl::OkStatus();
  return Mistake("--metrics ", options.metrics,
                 ": anyone who can connect could read them; give --insecure-metrics to "
                 "allow that, or serve them on 127.0.0.1");
}

// The right `code` and the switch for what it allows belong together.
absl::Status CheckDatasets(const DaemonOptions& options) {
  const std::vector<std::string>& rights = options.token_rights;
  const bool by_token = std::find(rights.begin(), rights.end(), "code") != rights.end();
  const bool granted = by_token || !options.allow_code.empty();
  if (!options.dataset_bytes.empty() && !options.allow_datasets) {
    return Mistake(
        "--dataset-bytes without --allow-datasets: the service takes no datasets of clients; give "
        "both, or leave --dataset-bytes out");
  }
  if (granted && !options.allow_datasets) {
    return Mistake(by_token ? "--token-rights code" : "--allow-code",
                   " without --allow-datasets: the service takes no code of clients; "
                   "give both, or leave the right out");
  }
  if (!options.allow_datasets || TlsOption(options).empty()) return absl::OkStatus();
  if (granted) return absl::OkStatus();
  return Mistake(
      "--allow-datasets, but no client has the right to bring code; give --allow-code NAME, or "
      "--token-rights code for those with the token");
}

// Takes the files' names, and checks that those that belong together are given together.
absl::StatusOr<TlsFiles::Paths> PathsOf(const DaemonOptions& options) {
  TlsFiles::Paths paths{options.tls_cert, options.tls_key, options.tls_client_ca,
                        options.token_instead_of_certificate};
  if (paths.certificate.empty() || paths.key.empty()) {
    return Mistake(TlsOption(options), " without ",
                   paths.certificate.empty() ? "--tls-cert" : "--tls-key",
                   ": TLS needs the service's certificate and its key");
  }
  const bool names = !options.allow_stream.empty() || !options.allow_status.empty() ||
                     !options.allow_operate.empty() || !options.allow_code.empty();
  for (const auto* allowed : {&options.allow_stream, &options.allow_status, &options.allow_operate,
                              &options.allow_code}) {
    if (std::find(allowed->begin(), allowed->end(), "") == allowed->end()) continue;
    return Mistake(
        "--allow-stream, --allow-status, --allow-operate and --allow-code: a name is empty, which "
        "would allow certificates without a name; write the name, or leave the option out");
  }
  if (names && paths.client_ca.empty()) {
    return Mistake(
        "--allow-stream, --allow-status, --allow-operate and --allow-code name clients by their "
        "certificates; give the authority that signs these with --tls-client-ca");
  }
  if (!options.token_rights.empty() && paths.token.empty()) {
    return Mistake("--token-rights without --token-instead-of-certificate: there is no token");
  }
  if (!paths.client_ca.empty() && !names) {
    return Mistake(
        "--tls-client-ca without a name: no client would have a right; give --allow-stream NAME, "
        "--allow-status NAME, --allow-operate NAME or, with --allow-datasets, --allow-code NAME, "
        "where NAME is in a client's certificate (* allows every one that the authority signed)");
  }
  if (paths.client_ca.empty() && paths.token.empty()) {
    return Mistake(
        "--tls-cert alone does not say who may connect; give --tls-client-ca and --allow-stream "
        "NAME, or, for clients without certificates, --token-instead-of-certificate FILE");
  }
  return paths;
}

std::set<Right> TokenRights(const std::vector<std::string>& names) {
  std::set<Right> rights;
  for (const Right right : {Right::kStream, Right::kStatus, Right::kOperate, Right::kCode}) {
    for (const std::string& name : names) {
      if (name == RightName(right)) rights.insert(right);
    }
  }
  return names.empty() ? std::set<Right>{Right::kStream, Right::kStatus} : rights;
}

}  // namespace

absl::Status ConfigureAccess(const DaemonOptions& options, LoaderServer::Config& config) {
  BULKHEAD_ASSIGN_OR_RETURN(config.access, RightsOf(options, config.address, nullptr));
  if (TlsOption(options).empty()) return absl::OkStatus();
  BULKHEAD_ASSIGN_OR_RETURN(const TlsFiles::Paths paths, PathsOf(options));
  BULKHEAD_ASSIGN_OR_RETURN(config.tls, TlsFiles::Read(paths));
  BULKHEAD_ASSIGN_OR_RETURN(config.access, RightsOf(options, config.address, config.tls));
  return absl::OkStatus();
}

absl::StatusOr<AccessRights> RightsOf(const DaemonOptions& options, const std::string& address,
                                      std::shared_ptr<const TlsFiles> files) {
  BULKHEAD_RETURN_IF_ERROR(CheckMetrics(options));
  BULKHEAD_RETURN_IF_ERROR(CheckAddress(options, address));
  BULKHEAD_RETURN_IF_ERROR(CheckDatasets(options));
  if (TlsOption(options).empty()) return AccessRights();
  BULKHEAD_RETURN_IF_ERROR(PathsOf(options).status());
  return AccessRights(
      std::move(files),
      {std::set<std::string>(options.allow_stream.begin(), options.allow_stream.end()),
       std::set<std::string>(options.allow_status.begin(), options.allow_status.end()),
       std::set<std::string>(options.allow_operate.begin(), options.allow_operate.end()),
       std::set<std::string>(options.allow_code.begin(), options.allow_code.end())},
      TokenRights(options.token_rights));
}

}  // namespace bulkhead
