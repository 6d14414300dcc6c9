#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "bulkhead/v1/loader.pb.h"
#include "server/os/process/cgroup.h"

namespace bulkhead {

// Limits the workers' memory on this machine. Each worker gets a cell. The level says how:
//
//   kernel-total    the cell is a leaf of a cgroup: the kernel ends a worker at its limit, whatever
//                   kind of memory it takes
//   kernel-private  no cgroup: RLIMIT_DATA limits private memory, and a seccomp filter blocks the
//                   ways around that limit
//   watchdog        no filter either: only the supervisor's readings are sure to find all memory
//
//   BULKHEAD_ASSIGN_OR_RETURN(auto compartment, Compartment::Open(config));
//   auto cell = compartment->Admit(pid, quota_bytes, threads);  // before the worker sees data
//   …
//   cell->OomKills();   // once the worker has been reaped
//   cell.reset();       // removes the leaf
//
// Lives on the supervisor's thread; outlives its cells.
class Compartment {
 public:
  // A leaf's allowance beyond the quota: page cache, kernel memory, and arena pages that the worker
  // touched first. RLIMIT_DATA and the watchdog do not count these, so they act before the leaf's
  // limit.
  static constexpr uint64_t kOverheadBytes = uint64_t{64} << 20;
  // A leaf's allowance beyond the worker's threads. It gives the watchdog, which can explain the
  // end, time to end a worker that keeps starting threads.
  static constexpr uint32_t kSpareThreads = 256;

  struct Config {
    std::string name;             // of this service: its boot id
    bool require_cgroup = false;  // without one the service does not start, and no worker runs
    CgroupSources sources;
    bool seccomp = true;  // workers shall enter a filter
  };

  // FAILED_PRECONDITION if a cgroup is required and there is none: why, and what to do.
  static absl::StatusOr<std::unique_ptr<Compartment>> Open(const Config& config);

  class Cell {
   public:
    ~Cell();
    Cell(const Cell&) = delete;
    Cell& operator=(const Cell&) = delete;

    // See Compartment::level().
    const char* level() const {
      return leaf_.has_value() ? kTotal : compartment_->LevelWithoutCgroup();
    }
    // 1 if the kernel killed the worker at the leaf's limit, else 0. Call it once the worker is
    // reaped.
    uint64_t OomKills() const;

   private:
    friend class Compartment;
    Cell(Compartment* compartment, std::optional<CgroupLeaf> leaf)
        : compartment_(compartment), leaf_(std::move(leaf)) {}

    Compartment* const compartment_;
    std::optional<CgroupLeaf> leaf_;
  };

  // Puts a process in a cell with a CPU share for `threads`; it may start `extra_threads` more.
  // Fails only if a cgroup is required; the process must then get no data.
  absl::StatusOr<std::unique_ptr<Cell>> Admit(pid_t pid, uint64_t quota_bytes, uint32_t threads,
                                              uint32_t extra_threads = 0);

  // The level: "kernel-total", "kernel-private" or "watchdog".
  const char* level() const { return tree_ != nullptr ? kTotal : LevelWithoutCgroup(); }
  // Why the level is not kernel-total; empty if it is.
  std::string reason() const;
  // A worker reported that its filter is not in force.
  void NoteWithoutSeccomp(const std::string& reason);
  // Fills in the level and its reason.
  void Describe(v1::Containment& containment) const {
    containment.set_quota_level(level());
    containment.set_quota_level_reason(reason());
  }

 private:
  static constexpr char kTotal[] = "kernel-total";

  Compartment(std::unique_ptr<CgroupTree> tree, std::string reason, const Config& config);
  const char* LevelWithoutCgroup() const;

  absl::StatusOr<CgroupLeaf> MakeLeaf(pid_t pid, const CgroupLimits& limits);
  // Retries removing leaves that were not empty, and those of killed services.
  void RemoveLeft();

  const std::unique_ptr<CgroupTree> tree_;  // null: no cgroup is available
  const std::string reason_;                // why not
  const bool required_;
  std::string no_seccomp_;  // why there is no filter; empty: there is one
  uint64_t next_leaf_ = 1;
  bool abandoned_ = true;         // groups of killed services may exist
  std::vector<CgroupLeaf> left_;  // leaves still in use by a worker or the kernel
};

}  // namespace bulkhead
