#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace bulkhead {

// The kernel interface that limits memory here.
enum class CgroupVersion { kV1, kV2 };

// The control group of a process, as folders.
struct CgroupLocation {
  CgroupVersion version = CgroupVersion::kV2;
  // Of the memory controller (version 1), or of all controllers (version 2).
  std::string memory;
  // Of the pids controller. Version 1: empty if it is not mounted. Version 2: the same folder.
  std::string pids;
};

// The kernel's lists of a process's groups. Tests replace them.
struct CgroupSources {
  std::string mounts = "/proc/self/mountinfo";
  std::string groups = "/proc/self/cgroup";
  pid_t pid = getpid();  // this process's pid in the groups' lists
};

// The group's path from the hierarchy's root, by such a list, for a version 1 controller or version
// 2 (empty controller).
std::optional<std::string> GroupPath(const std::string& groups, absl::string_view controller);

// Finds the group of this process: version 2 if that has the memory controller, else version 1,
// because a system may mount both. Works in containers, whose view has another root than the
// hierarchy. Accepts only a group that lists this process, because a mount may show another part of
// the hierarchy. FAILED_PRECONDITION, with the reason, if no group limits memory.
absl::StatusOr<CgroupLocation> FindOwnCgroup(const CgroupSources& sources);

}  // namespace bulkhead
