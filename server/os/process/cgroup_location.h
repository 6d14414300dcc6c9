#ifndef BULKHEAD_SERVER_OS_PROCESS_CGROUP_LOCATION_H_
#define BULKHEAD_SERVER_OS_PROCESS_CGROUP_LOCATION_H_

#include <sys/types.h>
#include <unistd.h>

#include <string>

#include "absl/status/statusor.h"

namespace bulkhead {

// Which of the kernel's two interfaces limits memory here.
enum class CgroupVersion { kV1, kV2 };

// The control group that a process lives in, as folders.
struct CgroupLocation {
  CgroupVersion version = CgroupVersion::kV2;
  // Of the memory controller (version 1), or of all (version 2).
  std::string memory;
  // Of the pids controller. Version 1: empty where it is not mounted. Version 2: the same folder.
  std::string pids;
};

// The files in which the kernel lists a process's groups. Tests give files of their own.
struct CgroupSources {
  std::string mounts = "/proc/self/mountinfo";
  std::string groups = "/proc/self/cgroup";
  pid_t pid = getpid();  // of this process, as the groups list it
};

// Finds the group of this process: version 2 where that has the memory controller, else version 1,
// as on a system that mounts both. A container's view, whose root is not the hierarchy's, is
// understood. Only a group that lists this process counts: what a mount shows may be another part
// of the hierarchy. FAILED_PRECONDITION, with the reason for people, when no group limits memory.
absl::StatusOr<CgroupLocation> FindOwnCgroup(const CgroupSources& sources);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_OS_PROCESS_CGROUP_LOCATION_H_
