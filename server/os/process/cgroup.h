#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/os/process/cgroup_location.h"

namespace bulkhead {

// The limits of a leaf.
struct CgroupLimits {
  // Everything that the kernel charges: the processes' memory, page cache, kernel memory. Swap is
  // off.
  uint64_t memory_bytes = 0;
  uint32_t max_threads = 0;
  // Version 2 with the cpu controller: the weight of the leaf against other leaves, in threads of
  // the usual priority. 0: the weight of one.
  uint32_t cpu_threads = 0;
};

// One control group for one process. Movable. Destruction removes the group if it is empty, else
// leaves it to CgroupTree::RemoveAbandoned.
class CgroupLeaf {
 public:
  CgroupLeaf(CgroupLeaf&& other) noexcept = default;
  CgroupLeaf& operator=(CgroupLeaf&& other) noexcept;
  ~CgroupLeaf();

  // Moves a process in, with all its threads. Memory charged earlier stays charged to its old
  // group.
  absl::Status Add(pid_t pid) const;
  // More than 0 if the kernel killed a process because this leaf's limit was met, and not a limit
  // above it or the machine's. Version 2 may count one process twice. failcnt and `max` alone prove
  // nothing: they also count reclaimed page cache.
  absl::StatusOr<uint64_t> OomKills() const;
  // Kills every process in it.
  void Kill() const;
  // UNAVAILABLE while a process is in it that has not been reaped.
  absl::Status Remove();

  // The folder with the memory files.
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

// The groups of one service, under the group in which it was started, whose limits hold for all of
// them together.
//
//   own group ─ bulkhead-NAME.PID.START ─┬─ supervisor   (version 2: a group with groups beneath
//                                        ├─ LEAF           it must not hold processes itself)
//                                        └─ LEAF
//
// PID and START (the process's start time) identify the owner: the next service that starts here
// removes the groups of services that ended without doing so. Not thread-safe.
class CgroupTree {
 public:
  // Finds the service's group, makes the tree, and tests it by making and removing a leaf. Under
  // version 2 this process moves into a leaf of its own if necessary. The error tells a person why
  // no leaf is available; the service then works without.
  static absl::StatusOr<std::unique_ptr<CgroupTree>> Open(const std::string& name,
                                                          const CgroupSources& sources = {});
  // Moves this process back and removes the tree as far as it is empty.
  ~CgroupTree();
  CgroupTree(const CgroupTree&) = delete;
  CgroupTree& operator=(const CgroupTree&) = delete;

  CgroupVersion version() const { return own_.version; }
  // A new leaf. ALREADY_EXISTS if this tree has one of that name.
  absl::StatusOr<CgroupLeaf> MakeLeaf(absl::string_view name, const CgroupLimits& limits) const;
  // Removes groups of former services that hold no process. False if some still do: a killed
  // service's workers may take a moment to exit.
  bool RemoveAbandoned() const;

 private:
  CgroupTree(CgroupLocation own, std::string name);

  // Version 2: makes the memory controller available to the leaves.
  absl::Status EnableControllers();
  absl::Status MoveSelfAside();

  const CgroupLocation own_;
  const std::string name_;  // the tree's folder
  bool moved_ = false;      // this process is in a leaf of its own
};

}  // namespace bulkhead
