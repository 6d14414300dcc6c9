#ifndef BULKHEAD_SERVER_OS_PROCESS_CGROUP_H_
#define BULKHEAD_SERVER_OS_PROCESS_CGROUP_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/os/process/cgroup_location.h"

namespace bulkhead {

// What a leaf holds its processes to.
struct CgroupLimits {
  // Everything the kernel charges: memory of their own, page cache, kernel memory. Swap is off.
  uint64_t memory_bytes = 0;
  uint32_t max_threads = 0;
  // Of version 2, where that has the cpu controller: threads of the usual priority that all of the
  // leaf's together weigh as much as, against those of other leaves. 0: it stays at one.
  uint32_t cpu_threads = 0;
};

// One control group for one process. Movable; when it is destroyed the group is removed if it is
// empty, and else left to CgroupTree::RemoveAbandoned.
class CgroupLeaf {
 public:
  CgroupLeaf(CgroupLeaf&& other) noexcept = default;
  CgroupLeaf& operator=(CgroupLeaf&& other) noexcept;
  ~CgroupLeaf();

  // Moves a process in, with all its threads. What it had touched stays charged where it was.
  absl::Status Add(pid_t pid) const;
  // More than 0 when the kernel killed a process here because this leaf's limit was met, and not
  // that of a group above it or the machine's; version 2 may count one process twice. failcnt
  // and `max` alone prove nothing: they also count how often page cache was given back.
  absl::StatusOr<uint64_t> OomKills() const;
  // Kills every process in it.
  void Kill() const;
  // UNAVAILABLE while a process is in it, reaped ones aside.
  absl::Status Remove();

  // The folder that has the memory files.
  const std::string& path() const { return folders_.front(); }

 private:
  friend class CgroupTree;
  // Whether this leaf's own limit was ever reached.
  bool MetItsLimit() const;
  CgroupLeaf(CgroupVersion version, std::vector<std::string> folders)
      : version_(version), folders_(std::move(folders)) {}

  CgroupVersion version_;
  std::vector<std::string> folders_;  // empty: removed, or moved from
};

// The groups of one service, beneath the group that it was started in, so that the limits of that
// one hold for all of them together.
//
//   own group ─ bulkhead-NAME.PID.START ─┬─ supervisor   (version 2: a group with groups beneath
//                                        ├─ LEAF           it must not hold processes itself)
//                                        └─ LEAF
//
// PID and START (the process's start time) tell whose the groups are: those of services that ended
// without removing theirs are removed by the next one that starts here. Not thread-safe.
class CgroupTree {
 public:
  // Finds the service's group, makes the tree, and makes and removes a leaf to see that it works.
  // Under version 2 this process moves into a leaf of its own where that is needed. The error says,
  // for people, why no leaf is available: the service then works without one.
  static absl::StatusOr<std::unique_ptr<CgroupTree>> Open(const std::string& name,
                                                          const CgroupSources& sources = {});
  // Moves this process back and removes the tree, as far as it is empty.
  ~CgroupTree();
  CgroupTree(const CgroupTree&) = delete;
  CgroupTree& operator=(const CgroupTree&) = delete;

  CgroupVersion version() const { return own_.version; }
  // A new leaf. ALREADY_EXISTS when this tree has one of that name.
  absl::StatusOr<CgroupLeaf> MakeLeaf(absl::string_view name, const CgroupLimits& limits) const;
  // Removes groups of services that are gone, where no process is left in them. False when some is:
  // workers of a service that was killed may take a moment to end.
  bool RemoveAbandoned() const;

 private:
  CgroupTree(CgroupLocation own, std::string name);

  // Version 2: has the kernel offer the memory controller to the leaves.
  absl::Status EnableControllers();
  absl::Status MoveSelfAside();

  const CgroupLocation own_;
  const std::string name_;  // of the tree's folder
  bool moved_ = false;      // this process is in a leaf of its own
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_OS_PROCESS_CGROUP_H_
