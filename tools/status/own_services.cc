#include "tools/status/own_services.h"

#include <algorithm>
#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/os/files/filesystem.h"
#include "server/os/sockets/unix_address.h"

namespace bulkhead::tools {

std::vector<std::string> EmbeddedParents() {
  std::vector<std::string> parents;
  const char* const runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && runtime[0] == '/') parents.emplace_back(runtime);
  if (parents.empty() || parents[0] != "/tmp") parents.emplace_back("/tmp");
  return parents;
}

bool Listens(const std::string& target) {
  return IsUnixListener(std::string(absl::StripPrefix(target, "unix:")));
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

}  // namespace bulkhead::tools
