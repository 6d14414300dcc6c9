#include "server/objects/store_config.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/paths/object_url.h"
#include "server/base/record_name.h"

namespace bulkhead {
namespace {

// A value and where it comes from, for messages.
struct Setting {
  std::string from;
  std::string value;
};

// The first variable of `names` that is set, else the setting of the profile.
Setting FirstOf(const Environment& environment, std::initializer_list<const char*> names,
                const AwsProfile& profile = {}, const std::string& in_profile = "") {
  for (const char* const name : names) {
    if (std::string value = Variable(environment, name); !value.empty()) return {name, value};
  }
  const auto found = profile.find(in_profile);
  if (found == profile.end()) return {};
  return {absl::StrCat(in_profile, " in ~/.aws/config"), found->second};
}

absl::Status InvalidSetting(const Setting& setting, absl::string_view why) {
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kInvalidArgument,
                   absl::StrCat(setting.from, ": ", why));
}

// "http://host:9000" without a slash at its end; a path in front of buckets is allowed.
absl::StatusOr<std::string> EndpointOf(const Setting& setting) {
  std::string endpoint = setting.value;
  while (absl::EndsWith(endpoint, "/")) endpoint.pop_back();
  if (!IsObjectUrl(endpoint) && !LooksLikeUrl(endpoint)) {
    const std::string shown = ShownUrl("http://" + endpoint).substr(7);
    return InvalidSetting(setting, absl::StrCat(shown, " has no scheme; write http://", shown,
                                                " or https://", shown));
  }
  const absl::StatusOr<ObjectUrl> url = ParseObjectUrl(endpoint);
  if (!url.ok()) return InvalidSetting(setting, url.status().message());
  if (url->is_bucket() || !url->query.empty()) {
    return InvalidSetting(setting, absl::StrCat(ShownUrl(endpoint),
                                                " is no endpoint; write https://HOST or "
                                                "http://HOST:PORT"));
  }
  return endpoint;
}

absl::Status CheckRegion(const Setting& setting) {
  const bool is_region = std::all_of(setting.value.begin(), setting.value.end(),
                                     [](char c) { return absl::ascii_isalnum(c) || c == '-'; });
  if (is_region) return absl::OkStatus();
  return InvalidSetting(
      setting, absl::StrCat("'", Printable(setting.value), "' is no region; write us-east-1"));
}

absl::StatusOr<bool> IsPathStyle(const Environment& environment, bool has_endpoint) {
  const Setting style = FirstOf(environment, {"AWS_S3_ADDRESSING_STYLE"});
  if (style.value.empty() || style.value == "auto") return has_endpoint;
  if (style.value == "path") return true;
  if (style.value == "virtual") return false;
  return InvalidSetting(style, absl::StrCat("'", Printable(style.value),
                                            "' is no style; write path, virtual or auto"));
}

ProxyConfig ProxiesOf(const Environment& environment) {
  const std::string all = FirstOf(environment, {"all_proxy", "ALL_PROXY"}).value;
  ProxyConfig proxy;
  proxy.http = FirstOf(environment, {"http_proxy"}).value;
  proxy.https = FirstOf(environment, {"https_proxy", "HTTPS_PROXY"}).value;
  if (proxy.http.empty()) proxy.http = all;
  if (proxy.https.empty()) proxy.https = all;
  proxy.none_for = FirstOf(environment, {"no_proxy", "NO_PROXY"}).value;
  return proxy;
}

}  // namespace

absl::StatusOr<StoreConfig> StoreConfig::FromEnvironment(const Environment& environment) {
  const AwsFiles files = AwsFiles::Of(environment);
  const AwsProfile profile = ReadAwsProfile(files.config, files.profile);
  StoreConfig config;
  const Setting endpoint =
      FirstOf(environment, {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}, profile, "endpoint_url");
  if (!endpoint.value.empty()) {
    BULKHEAD_ASSIGN_OR_RETURN(config.s3_endpoint, EndpointOf(endpoint));
  }
  const Setting google = FirstOf(environment, {"GS_ENDPOINT_URL"});
  if (!google.value.empty()) {
    BULKHEAD_ASSIGN_OR_RETURN(config.gs_endpoint, EndpointOf(google));
  }
  const Setting region =
      FirstOf(environment, {"AWS_REGION", "AWS_DEFAULT_REGION"}, profile, "region");
  if (!region.value.empty()) {
    BULKHEAD_RETURN_IF_ERROR(CheckRegion(region));
    config.region = region.value;
  }
  BULKHEAD_ASSIGN_OR_RETURN(config.path_style,
                            IsPathStyle(environment, !config.s3_endpoint.empty()));
  config.ca_bundle = FirstOf(environment, {"AWS_CA_BUNDLE"}, profile, "ca_bundle").value;
  if (config.ca_bundle.empty()) {
    config.ca_bundle = FirstOf(environment, {"SSL_CERT_FILE"}).value;
  }
  config.proxy = ProxiesOf(environment);
  return config;
}

}  // namespace bulkhead
