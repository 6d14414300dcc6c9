#include "tools/common/own_services.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "server/os/files/filesystem.h"
#include "server/os/sockets/unix_address.h"

namespace bulkhead::tools {
namespace {

// The arena door's path is its service's with this suffix (server/doors/arena_door.h).
constexpr absl::string_view kDoorSuffix = ".arena";

// Whether a process listens at "unix:/path".
bool Listens(const std::string& target) {
  return IsUnixListener(std::string(absl::StripPrefix(target, "unix:")));
}

}  // namespace

std::vector<std::string> EmbeddedParents() {
  std::vector<std::string> parents;
  const char* const runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && runtime[0] == '/') parents.emplace_back(runtime);
  std::error_code error;
  if (parents.empty() || !std::filesystem::equivalent(parents[0], "/tmp", error)) {
    parents.emplace_back("/tmp");
  }
  return parents;
}

std::vector<std::string> EmbeddedTargets(const std::vector<std::string>& parents) {
  std::vector<std::string> targets;
  for (const std::string& parent : parents) {
    for (const std::string& name : NamesIn(parent)) {
      const std::string folder = absl::StrCat(parent, "/", name);
      // Anybody may make a folder of such a name in /tmp.
      if (!absl::StartsWith(name, "bulkhead-") || !CheckPrivateFolder(folder).ok()) continue;
      for (const std::string& file : NamesIn(folder)) {
        const std::string target = absl::StrCat("unix:", folder, "/", file);
        // loader.sock is of a service that was started by hand.
        if (!absl::EndsWith(file, ".sock") || file == "loader.sock") continue;
        if (Listens(target)) targets.push_back(target);
      }
    }
  }
  std::sort(targets.begin(), targets.end());
  return targets;
}

std::string DefaultTarget() {
  const char* const runtime = std::getenv("XDG_RUNTIME_DIR");
  const bool has_runtime = runtime != nullptr && runtime[0] != '\0';
  return absl::StrCat(
      "unix:",
      has_runtime ? absl::StrCat(runtime, "/bulkhead") : absl::StrCat("/tmp/bulkhead-", getuid()),
      "/loader.sock");
}

std::vector<std::string> OwnTargets() {
  std::vector<std::string> targets = EmbeddedTargets(EmbeddedParents());
  if (Listens(DefaultTarget())) targets.insert(targets.begin(), DefaultTarget());
  for (const std::string& path : ListeningPathsOf("bulkheadd")) {
    // The socket may have another name, through a link.
    const auto is_it = [&path](const std::string& target) {
      std::error_code error;
      const absl::string_view name = absl::StripPrefix(target, "unix:");
      return name == path || std::filesystem::equivalent(std::string(name), path, error);
    };
    const bool known = std::any_of(targets.begin(), targets.end(), is_it);
    if (!known && !absl::EndsWith(path, kDoorSuffix))
      targets.push_back(absl::StrCat("unix:", path));
  }
  for (std::string& address : NotedAddressesOf("bulkheadd")) targets.push_back(std::move(address));
  return targets;
}

absl::StatusOr<std::string> OnlyService(const std::vector<std::string>& targets) {
  if (targets.size() == 1) return targets[0];
  if (targets.empty()) {
    return absl::NotFoundError(
        absl::StrCat("no service of yours runs: none at ", DefaultTarget(),
                     ", none at another socket or port of this machine, and none that a trainer "
                     "has started for itself; --target names one that runs elsewhere"));
  }
  return absl::FailedPreconditionError(absl::StrCat(
      targets.size(), " services of yours run (`bulkhead status --all` tells more); name one: ",
      absl::StrJoin(targets, " or ", [](std::string* out, const std::string& one) {
        absl::StrAppend(out, "--target ", one);
      })));
}

absl::StatusOr<std::string> FindService(const std::string& target) {
  if (!target.empty()) return target;
  return OnlyService(OwnTargets());
}

Option FoundTargetOption(std::string& target) {
  return {
      "--target",
      "The service: unix:/path, host:port, a target file, or FILE#ADDRESS for one of those that a "
      "target file names; left out: the only one of yours on this machine, also one that a "
      "trainer has started for itself",
      Text(target, "ADDRESS")};
}

}  // namespace bulkhead::tools
