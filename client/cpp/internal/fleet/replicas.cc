#include "client/cpp/internal/fleet/replicas.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/cpp/internal/base/error.h"
#include "client/cpp/internal/rpc/address.h"
#include "client/cpp/internal/service/target_file.h"

namespace bulkhead::client_internal {
namespace {

constexpr size_t kMost = 256;
constexpr absl::string_view kName = "dns:///";
// How often names are resolved again, and a target file is looked at.
constexpr absl::Duration kNamePause = absl::Seconds(5);
constexpr absl::Duration kFilePause = absl::Seconds(1);

std::optional<HostAndPort> NameOf(absl::string_view target) {
  if (!absl::ConsumePrefix(&target, kName)) return std::nullopt;
  return SplitPort(target);
}

bool IsTarget(absl::string_view text) {
  if (absl::StartsWith(text, "unix:")) return text.size() > 5;
  return NameOf(text).has_value() || SplitPort(text).has_value();
}

std::string TextOf(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address->sa_family == AF_INET6) {
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, text,
              sizeof(text));
    return absl::StrCat("[", text, "]");
  }
  inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof(text));
  return text;
}

absl::StatusOr<std::vector<Replica>> Resolve(const std::string& target, const HostAndPort& name) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* answers = nullptr;
  const int failed = getaddrinfo(name.host.c_str(), name.port.c_str(), &hints, &answers);
  if (failed != 0) {
    return MakeClientError(
        absl::StatusCode::kUnavailable, client_reason::kServiceUnavailable,
        absl::StrCat(target, ": the name ", name.host, " resolves to nothing (",
                     gai_strerror(failed), "); check the name and that replicas run behind it"),
        {{"target", target}});
  }
  std::set<std::string> hosts;
  for (const addrinfo* answer = answers; answer != nullptr; answer = answer->ai_next) {
    if (answer->ai_family == AF_INET || answer->ai_family == AF_INET6) {
      hosts.insert(TextOf(answer->ai_addr));
    }
  }
  freeaddrinfo(answers);
  std::vector<Replica> replicas;
  for (const std::string& host : hosts) {
    replicas.push_back({absl::StrCat(host, ":", name.port), name.host});
  }
  return replicas;
}

absl::StatusOr<std::vector<Replica>> Find(const std::vector<std::string>& targets) {
  std::vector<Replica> found;
  const auto add = [&](const Replica& replica) {
    const bool is_new = std::find(found.begin(), found.end(), replica) == found.end();
    if (is_new && found.size() < kMost) found.push_back(replica);
  };
  for (const std::string& target : targets) {
    const auto name = NameOf(target);
    if (!name.has_value()) {
      add({target, ""});
      continue;
    }
    BULKHEAD_ASSIGN_OR_RETURN(auto resolved, Resolve(target, *name));
    for (const Replica& replica : resolved) add(replica);
  }
  return found;
}

}  // namespace

std::vector<std::string> FleetTargets(const std::string& address) {
  std::vector<std::string> parts;
  for (const absl::string_view part : absl::StrSplit(address, ',')) {
    parts.emplace_back(absl::StripAsciiWhitespace(part));
  }
  if (parts.size() > 1 && std::all_of(parts.begin(), parts.end(), IsTarget)) return parts;
  if (NameOf(address).has_value()) return {address};
  return {};
}

Replicas::Replicas(std::vector<std::string> targets, std::string path)
    : targets_(std::move(targets)), path_(std::move(path)) {}

absl::StatusOr<Replicas> Replicas::Make(std::vector<std::string> targets, const std::string& path) {
  Replicas replicas(std::move(targets), path);
  BULKHEAD_ASSIGN_OR_RETURN(replicas.found_, Find(replicas.targets_));
  return replicas;
}

absl::Duration Replicas::look_every() const {
  if (!path_.empty()) return kFilePause;
  const auto is_name = [](const std::string& target) { return NameOf(target).has_value(); };
  return std::any_of(targets_.begin(), targets_.end(), is_name) ? kNamePause : absl::ZeroDuration();
}

void Replicas::Look(const std::function<void(const std::string&)>& warn) {
  if (const Stamp stamp = StampOfFile(); stamp != stamp_) {
    stamp_ = stamp;
    auto address = AddressIn(path_);
    if (!address.ok()) return warn(std::string(address.status().message()));
    targets_ = FleetTargets(*address);
    if (targets_.empty()) targets_ = {*address};
  }
  auto found = Find(targets_);
  if (!found.ok()) return warn(std::string(found.status().message()));
  found_ = *std::move(found);
}

Replicas::Stamp Replicas::StampOfFile() const {
  struct stat file {};
  if (path_.empty() || stat(path_.c_str(), &file) != 0) return {};
  return {file.st_ino, file.st_mtim.tv_sec, file.st_mtim.tv_nsec, file.st_size};
}

}  // namespace bulkhead::client_internal
