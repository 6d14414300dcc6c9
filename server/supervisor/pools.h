#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/os/files/io_thread.h"
#include "server/supervisor/memory/arena_memory.h"
#include "server/supervisor/memory/memory_budget.h"
#include "server/supervisor/pool/worker_pool.h"

namespace bulkhead {

// Time limit for a killed worker to be reaped.
inline constexpr absl::Duration kReapPatience = absl::Seconds(2);

// A stream's place in the pool that it was admitted to. The pool is kept while a copy exists. Only
// the supervisor's thread may look inside.
using PoolSeat = std::shared_ptr<WorkerPool>;

// What a stream was promised: its arena's memory until the last copy of `arena` is gone, and its
// pipeline's workers while a copy of `pool`, or a stream on it, exists.
struct Admission {
  uint32_t worker_count = 0;
  uint32_t slot_count = 0;
  std::shared_ptr<MemoryClaim> arena;
  PoolSeat pool;
};

// The pools of all pipelines. Decides which streams are admitted, and which pools and streams give
// up workers and memory for others. Lives on the supervisor's thread.
class Pools {
 public:
  struct Config {
    PoolContext context;  // except `memory`, `make_room` and `on_wanted`, which are each pool's own
    // See Supervisor::Config.
    absl::Duration idle_pool;
    absl::Duration idle_stream;
    uint64_t index_worker_quota_bytes = 0;
    bool enforce_quotas = true;
    std::shared_ptr<IoThread> io;
  };

  explicit Pools(Config config);

  // See Supervisor::Admit. Absent, with `demand` filled in, if `may_wait` and the memory is about
  // to come back.
  std::optional<absl::StatusOr<Admission>> Admit(const PipelineConfig& pipeline, bool may_wait,
                                                 MemoryBudget::Demand& demand, Legacy* legacy);
  // As Supervisor::TrySeat; `demand` is of the arena.
  PoolSeat TrySeat(const PipelineConfig& pipeline, MemoryBudget::Demand demand);
  // The stream's client is gone.
  void RemoveStream(uint64_t stream_id);
  // Ends every stream with `status`, and refuses new ones from now on.
  void End(const absl::Status& status) {
    ended_ = status;
    ForEach([&](WorkerPool& pool) { pool.FailStreams(status); });
  }
  // Not OK once End was called; pools may be gone then.
  const absl::Status& ended() const { return ended_; }
  // Kills all workers.
  void Clear() {
    if (ended_.ok()) ended_ = absl::CancelledError("the service has ended");
    entries_.clear();
  }
  // Promises the memory of a client's dataset; others give up theirs as for a stream. Absent, with
  // `demand` filled in, if `may_wait` and the memory is about to come back.
  std::optional<absl::StatusOr<MemoryClaim>> AdmitDataset(uint64_t bytes, bool may_wait,
                                                          MemoryBudget::Demand& demand);
  // Ends the pool that has been idle for longest of those with datasets. False if there is none.
  bool EndIdleWithDataset() { return DropLongestIdle("", /*with_dataset=*/true); }
  // See IndexJobs::ClaimFn.
  absl::StatusOr<MemoryClaim> AdmitIndexWorker(bool end_idle);
  // Sets the container's memory limit.
  void SetLimit(uint64_t limit_bytes);

  // Tells all workers about new cache segments.
  void TellSegments() {
    ForEach([](WorkerPool& pool) { pool.segments().Tell(); });
  }
  void ForEach(const std::function<void(WorkerPool&)>& visit) const {
    for (const Entry& entry : entries_) visit(*entry.pool);
  }
  // Adds all pools, and the totals of former pools.
  void AppendStatus(v1::GetStatusResponse& response) const {
    response.MergeFrom(past_totals_);
    ForEach([&](const WorkerPool& pool) { pool.AppendStatus(response); });
  }

 private:
  struct Entry {
    std::unique_ptr<WorkerPool> pool;
    std::shared_ptr<MemoryClaim> memory;  // the workers' memory
    int64_t idle_since_ns = 0;
    uint32_t admitted = 0;  // streams that were promised it, including those not yet open
    bool waking = false;    // was parked, and waits for memory

    const PipelineConfig& pipeline() const { return pool->config(); }
    // Of the workers without those that tuning added.
    uint64_t first_bytes() const {
      return memory->quota_bytes() - pool->spare().tuning.spare_bytes();
    }
    bool idle() const { return admitted == 0 && pool->streams().empty(); }
    bool is_over() const { return idle() && pipeline().brief; }
    // How long no client has read any of its streams; zero if one does, or may soon.
    absl::Duration unread_for(int64_t now_ns) const;
  };

  // The pool whose workers run the current content of the pipeline's files.
  Entry* Find(const PipelineConfig& pipeline);
  Entry* Find(const WorkerPool* pool);
  Entry& Start(const PipelineConfig& pipeline, MemoryClaim claim);
  PoolSeat Reserve(Entry& entry);
  // For a group that would share batches: workers that tuning added make room, and pipelines
  // without streams.
  void MakeRoomForSharing(const MemoryBudget::Demand& demand);
  // Bytes that pipelines without streams could give up, except the pipeline `but_key`.
  uint64_t IdleBytes(const std::string& but_key) const;
  // Bytes that unread streams could give up, except the workers of the pipeline `but_key`.
  uint64_t UnreadBytes(const std::string& but_key) const;
  // Whether `demand` fits, now or soon. If that is possible, makes groups give up the memory in
  // which they share batches, then pipelines the workers that tuning added, then pipelines without
  // streams, and with `from_streams` also unread streams, give up what it needs; of the latter two
  // never the pipeline `but_key`.
  bool MakeRoom(const MemoryBudget::Demand& demand, const std::string& but_key, bool from_streams);
  // The same; true if the room is still to come.
  bool RoomComes(const MemoryBudget::Demand& demand, const std::string& but_key) {
    return MakeRoom(demand, but_key, /*from_streams=*/true) && !budget_.FitsWholly(demand) &&
           budget_.returning_bytes() > 0;
  }
  // Takes workers, or a place, from the stream that was read least recently. False if there is
  // none.
  bool ParkUnreadPool(const std::string& but_key);
  bool EvictUnreadStream();
  // A parked pool has work again. It gets workers, or its streams end (STREAM_IDLE).
  void WakeSoon(WorkerPool* pool);
  void Wake(WorkerPool* pool, int64_t deadline_ns);
  // Drops pools that were idle for long, or whose workers do not stop working. Repeats itself.
  void DropIdle();
  void DropIf(const std::function<bool(const Entry&)>& condition);
  // False if no pool but `but_key` is idle, of those with datasets if that is asked for.
  bool DropLongestIdle(const std::string& but_key, bool with_dataset = false);

  const Config config_;
  EventLoop& loop_;
  MemoryBudget& budget_;
  std::vector<Entry> entries_;
  absl::Status ended_;
  v1::GetStatusResponse past_totals_;  // of former pools
  int64_t index_wait_began_ns_ = 0;    // start of the wait for memory; 0: none
  int64_t index_wait_seen_ns_ = 0;     // when memory was last asked for
};

}  // namespace bulkhead
