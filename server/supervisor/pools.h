#ifndef BULKHEAD_SERVER_SUPERVISOR_POOLS_H_
#define BULKHEAD_SERVER_SUPERVISOR_POOLS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/os/files/io_thread.h"
#include "server/supervisor/arena_memory.h"
#include "server/supervisor/memory_budget.h"
#include "server/supervisor/worker_pool.h"

namespace bulkhead {

// A stream's seat in the pool that it was admitted to: the pool is not given up while there is a
// copy. To be handed back to the supervisor; only its thread may look inside.
using PoolSeat = std::shared_ptr<WorkerPool>;

// What a stream was promised. Its arena's memory, until the last copy of `arena` is gone; and its
// pipeline's workers, which other streams cannot starve while there is a copy of `pool` or a
// stream on it.
struct Admission {
  uint32_t worker_count = 0;
  std::shared_ptr<MemoryClaim> arena;
  PoolSeat pool;
};

// The pools of all pipelines: who is admitted to which, and who gives up workers and memory when
// others need them. Lives on the supervisor's thread.
class Pools {
 public:
  struct Config {
    PoolContext context;  // `memory` and `on_wanted` are each pool's own
    // As Supervisor::Config.
    absl::Duration idle_pool;
    absl::Duration idle_stream;
    uint64_t index_worker_quota_bytes = 0;
    bool enforce_quotas = true;
    std::shared_ptr<IoThread> io;
  };

  explicit Pools(Config config);

  // As Supervisor::Admit. Absent, with `demand` filled in: memory that it needs is on its way back,
  // and `may_wait`.
  std::optional<absl::StatusOr<Admission>> Admit(const PipelineConfig& pipeline, bool may_wait,
                                                 MemoryBudget::Demand& demand, Legacy* legacy);
  // Nobody listens to the stream any more.
  void RemoveStream(uint64_t stream_id);
  // Ends every stream with `status`; from now on none is admitted, nor opened.
  void End(const absl::Status& status);
  // Not OK once streams have been ended, and when pools may be gone.
  const absl::Status& ended() const { return ended_; }
  // Kills all workers.
  void Clear();
  // As IndexJobs::ClaimFn.
  absl::StatusOr<MemoryClaim> AdmitIndexWorker(bool end_idle);
  // The container's memory limit is so many bytes now.
  void SetLimit(uint64_t limit_bytes);

  void ForEach(const std::function<void(WorkerPool&)>& visit) const;
  // Adds all pools, and the totals of those that are gone.
  void AppendStatus(v1::GetStatusResponse& response) const;

 private:
  struct Entry {
    std::unique_ptr<WorkerPool> pool;
    std::shared_ptr<MemoryClaim> memory;  // of its workers
    int64_t idle_since_ns = 0;
    uint32_t admitted = 0;  // streams that were promised it, whether or not they are there yet
    bool waking = false;    // it was parked, and waits for memory

    const PipelineConfig& pipeline() const { return pool->config(); }
    bool idle() const { return admitted == 0 && pool->streams().empty(); }
    // For how long nobody has read any of its streams; zero: somebody does, or may soon.
    absl::Duration unread_for(int64_t now_ns) const;
  };

  // The pool whose workers run what the pipeline's files hold now.
  Entry* Find(const PipelineConfig& pipeline);
  Entry* Find(const WorkerPool* pool);
  Entry& Start(const PipelineConfig& pipeline, MemoryClaim claim);
  PoolSeat Reserve(Entry& entry);
  // What pipelines without streams could give up, besides the one with that key.
  uint64_t IdleBytes(const std::string& but_key) const;
  // What streams that nobody reads could give up; of the pipeline with that key, not the workers.
  uint64_t UnreadBytes(const std::string& but_key) const;
  // Whether there is room, or will be: then pipelines without streams have given up what it takes,
  // besides the one with that key, and with `from_streams` streams that nobody reads have. Nobody
  // gives up anything in vain.
  bool MakeRoom(const MemoryBudget::Demand& demand, const std::string& but_key, bool from_streams);
  // The same; true when there will be room, and is not yet.
  bool RoomComes(const MemoryBudget::Demand& demand, const std::string& but_key);
  // The one that was read least recently gives up its workers, or its place. False when there is
  // none.
  bool ParkUnreadPool(const std::string& but_key);
  bool EvictUnreadStream();
  absl::Status StreamIdle() const;
  // A parked pool has work again: it gets workers, or its streams end (STREAM_IDLE).
  void WakeSoon(WorkerPool* pool);
  void Wake(WorkerPool* pool, int64_t deadline_ns);
  // Those that were idle for long, or whose workers do not rest; again in a moment.
  void DropIdle();
  void DropIf(const std::function<bool(const Entry&)>& condition);
  // False when no pool is idle, besides the one with that key.
  bool DropLongestIdle(const std::string& but_key);

  const Config config_;
  EventLoop& loop_;
  MemoryBudget& budget_;
  std::vector<Entry> entries_;
  absl::Status ended_;
  v1::GetStatusResponse past_totals_;  // of pools that are gone
  int64_t index_wait_began_ns_ = 0;    // for memory; 0: it does not wait
  int64_t index_wait_seen_ns_ = 0;     // when it was asked for last
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SUPERVISOR_POOLS_H_
