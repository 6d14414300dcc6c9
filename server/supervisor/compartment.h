#ifndef BULKHEAD_SERVER_SUPERVISOR_COMPARTMENT_H_
#define BULKHEAD_SERVER_SUPERVISOR_COMPARTMENT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bulkhead/v1/loader.pb.h"
#include "server/os/process/cgroup.h"

namespace bulkhead {

// What holds the workers' memory on this machine, and a cell for each of them. Where a cgroup can
// be had, a worker's cell is a leaf of it, and the kernel ends the worker whatever kind of memory
// it takes (level "kernel-total"); elsewhere the cell is empty, and reason() says why. Then the
// worker's own RLIMIT_DATA and the watchdog remain: the kernel stops private memory where a seccomp
// filter closes the ways around that limit (level "kernel-private"); without the filter all that is
// sure is that the watchdog finds what a worker holds (level "watchdog").
//
//   BULKHEAD_ASSIGN_OR_RETURN(auto compartment, Compartment::Open(config));
//   auto cell = compartment->Admit(pid, quota_bytes, threads);  // before the worker sees data
//   …
//   cell->OomKills();   // once the worker was reaped
//   cell.reset();       // removes the leaf
//
// Lives on the supervisor's thread; outlives its cells.
class Compartment {
 public:
  // What a leaf allows beside the quota: page cache of the files that are read, kernel memory, and
  // pages of an arena that the worker touched before the supervisor did. RLIMIT_DATA and the
  // watchdog, which count neither, bite before.
  static constexpr uint64_t kOverheadBytes = uint64_t{64} << 20;
  // Threads that a leaf allows beside those that its worker may have: time for the watchdog, which
  // can say what happened, to end a worker that goes on starting more.
  static constexpr uint32_t kSpareThreads = 256;

  struct Config {
    std::string name;             // of this service: its boot id
    bool require_cgroup = false;  // without one the service does not start, and no worker runs
    CgroupSources sources;
    bool seccomp = true;  // the workers are to enter a filter
  };

  // FAILED_PRECONDITION, only where a cgroup is required: why there is none, and what to do.
  static absl::StatusOr<std::unique_ptr<Compartment>> Open(const Config& config);

  class Cell {
   public:
    ~Cell();
    Cell(const Cell&) = delete;
    Cell& operator=(const Cell&) = delete;

    // As Compartment::level().
    const char* level() const;
    // 1 when the kernel killed the worker for meeting the leaf's limit, else 0. Ask once it was
    // reaped.
    uint64_t OomKills() const;

   private:
    friend class Compartment;
    Cell(Compartment* compartment, std::optional<CgroupLeaf> leaf);

    Compartment* const compartment_;
    std::optional<CgroupLeaf> leaf_;
  };

  // Puts a process in a cell of its own, which may have `extra_threads` beside the `threads` that
  // its share of the CPUs is for. Errors only where a cgroup is required: the process must
  // then not be given data.
  absl::StatusOr<std::unique_ptr<Cell>> Admit(pid_t pid, uint64_t quota_bytes, uint32_t threads,
                                              uint32_t extra_threads = 0);

  // What is promised on this machine: "kernel-total", "kernel-private" or "watchdog".
  const char* level() const { return tree_ != nullptr ? kTotal : LevelWithoutCgroup(); }
  // Why it is not kernel-total; empty when it is.
  std::string reason() const;
  // A worker said that its filter is not in force, and why.
  void NoteWithoutSeccomp(const std::string& reason);
  // Fills in the level and its reason.
  void Describe(v1::Containment& containment) const;

 private:
  static constexpr char kTotal[] = "kernel-total";

  Compartment(std::unique_ptr<CgroupTree> tree, std::string reason, const Config& config);
  const char* LevelWithoutCgroup() const;

  absl::StatusOr<CgroupLeaf> MakeLeaf(pid_t pid, const CgroupLimits& limits);
  // Tries again to remove leaves that were not empty, and those of services that were killed.
  void RemoveLeft();

  const std::unique_ptr<CgroupTree> tree_;  // null: no cgroup is to be had
  const std::string reason_;                // why there is no cgroup
  const bool required_;
  std::string no_seccomp_;  // why there is no filter; empty: there is one
  uint64_t next_leaf_ = 1;
  bool abandoned_ = true;         // there may be groups of services that were killed
  std::vector<CgroupLeaf> left_;  // their workers did not end yet, or the kernel is not done
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SUPERVISOR_COMPARTMENT_H_
