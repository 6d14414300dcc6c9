#ifndef BULKHEAD_SERVER_SUPERVISOR_WORKER_POOL_H_
#define BULKHEAD_SERVER_SUPERVISOR_WORKER_POOL_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/os/event_loop.h"
#include "server/os/fd_parcel.h"
#include "server/supervisor/blame.h"
#include "server/supervisor/cache_segments.h"
#include "server/supervisor/compartment.h"
#include "server/supervisor/exit_log.h"
#include "server/supervisor/memory_budget.h"
#include "server/supervisor/pool_worker.h"
#include "server/supervisor/recycle_policy.h"
#include "server/supervisor/replacement_gate.h"
#include "server/supervisor/scratch_folders.h"
#include "server/supervisor/stream.h"
#include "server/supervisor/worker_timeouts.h"

namespace bulkhead {

// What the workers of one pipeline are.
struct PipelineConfig {
  // Equal keys mean the same pipeline: its workers are shared.
  std::string key;
  // Short name for logs and the status page.
  std::string name;
  // Serialized internal.v1.PipelineBinding.
  std::string binding;
  uint32_t workers = 1;
  uint32_t threads = 1;
  uint64_t quota_bytes = 0;
  // Shared memory that a worker may map beside arenas: its indexes, should they lie on a tmpfs.
  uint64_t mapped_bytes = 0;
  // Those indexes, open, in the order of IndexPaths: workers that come later need them whatever
  // becomes of their folder. Empty: workers open them by their paths.
  std::vector<SharedFd> index_fds;
  // What its stages are called: its workers name others in vain.
  std::set<std::string> stages;
  bool attribution = true;  // allocations are counted by stage
  bool python = false;      // it has stages of Python
  // The user's files that are known of the pipeline, as they are on the disk; without a digest:
  // gone.
  std::vector<v1::CodeFile> code;
  std::string user_code;  // its functions and libraries of the user's, for people; empty: none
  // It has batch stages: a lease is a whole batch, and all threads of a worker are at one.
  bool whole_batches = false;
  bool seeks = false;   // it decodes parts of JPEG images, so that seek entries are of use
  bool caches = false;  // it has cache stages
  // Of what its workers write to caches (SegmentFolder): its own where it runs code of the user's.
  std::string trust_domain = SegmentFolder::kBuiltIn;
};

class WorkerPool;

// What every pool of a service has in common.
struct PoolContext {
  std::shared_ptr<EventLoop> loop;
  WorkerPrograms programs;
  PoolTimeouts timeouts;
  RecycleConfig recycle;
  ExitLog* exits = nullptr;
  ReplacementGate* gate = nullptr;
  Compartment* compartment = nullptr;
  // What every worker enters before it sees data.
  internal::v1::Sandbox sandbox;
  // Where the workers' seek entries are kept, and what their cache stages keep; null: nowhere.
  CacheSegments* seek_segments = nullptr;
  CacheSegments* stage_segments = nullptr;
  // Folders of workers with user code; null: they get none.
  ScratchFolders* scratch = nullptr;
  // What the pool's workers were promised: let go of when the last of them was reaped, also of
  // those that the pool leaves behind when it is destroyed. May be null.
  std::shared_ptr<MemoryClaim> memory;
  MemoryBudget* budget = nullptr;  // for workers beside those
  // A parked pool has work again.
  std::function<void(WorkerPool*)> on_wanted;
};

// The workers of one pipeline and the streams that they serve: starts them, hands out leases
// round-robin over the streams, has the leases of workers that die done by others, and replaces
// workers, those that died and those that are about to meet their quota.
//
// A death counts against the leases that the worker's threads were at. A lease that was present at
// several, or whose sample brought the worker down by itself, is a suspect: it is done alone by a
// worker that is set apart for it. A worker may have been brought to its end by what it did before,
// by a leak, say; so what convicts a lease, and ends its stream and no other, are the deaths of
// fresh workers that did nothing else.
//
// A planned replacement is made before the break: a successor starts beside the worker, warms up
// and takes over; then the old one finishes the leases that it holds, ends, and is reaped. The
// whole service has one replacement under way at a time.
//
//   worker_pool.cc            streams, leases, blame
//   worker_pool_life.cc       processes: start, messages, ends, status
//   worker_pool_watch.cc      hangs, memory, replacements
//
// Lives on the supervisor's thread.
class WorkerPool {
 public:
  // Deaths at one lease, after which its stream fails: those that made it a suspect, and then those
  // of fresh workers. As many in one place, of workers that had no lease, fail the pool while no
  // other worker is ready.
  static constexpr uint32_t kMaxDeaths = 8;
  // Deaths of fresh workers that did nothing else, at one record, after which it is poison.
  static constexpr uint32_t kPoisonDeaths = 3;

  WorkerPool(PoolContext context, PipelineConfig config);
  ~WorkerPool();

  const PipelineConfig& config() const { return config_; }
  bool idle() const { return streams_.empty(); }
  // Broken pools serve nobody any more: their workers could not be bound, or crash in a loop.
  bool broken() const { return !failure_.ok(); }

  // Spawns the workers; the first streams may be added at once.
  void Start();
  void AddStream(std::shared_ptr<Stream> stream);
  // False when the pool has no such stream.
  bool RemoveStream(uint64_t stream_id);
  // Hands planned leases to workers that have room.
  void Dispatch();
  // Tells the workers of what is new in the caches.
  void SendSegments() const;
  // Has the workers given what they may write to there, ahead of a stream that reads its data more
  // than once; false while it is on its way.
  bool LendSegments();
  // Ends every stream with `status`, and who waits for code.
  void FailStreams(const absl::Status& status);
  // Of a pool without streams: whether a worker went on working all the same since the last call,
  // at a lease or in threads of the user's code.
  bool IsRestless();
  // The user's files that its workers have loaded so far, by name.
  const std::map<std::string, std::string>& code() const { return code_; }
  // Whether its workers run what these files do not hold any more.
  bool RunsOther(const std::vector<v1::CodeFile>& code) const;
  // Calls `told` with the files that the first worker had loaded when it was bound, sorted by name,
  // or with why no worker will be: now, or once that is known.
  using CodeTold = std::function<void(const absl::StatusOr<std::vector<v1::CodeFile>>&)>;
  void WhenLoaded(CodeTold told);

  // Replaces every worker, or the one in `slot`, one after another. Returns how many.
  uint32_t Recycle(std::optional<uint32_t> slot);

  const std::vector<std::shared_ptr<Stream>>& streams() const { return streams_; }
  // Some stream has leases to be given out.
  bool has_work() const;
  // Ends all workers until Resume, since their memory is needed and no stream needs them now; the
  // pool's claim is let go of when the last of them was reaped. False, and nothing happens, while a
  // worker has work, is being replaced or is lost.
  bool Park();
  bool parked() const { return parked_ && !resume_.has_value(); }
  // Starts so many workers in a parked pool, once the old ones were reaped; `memory` is promised to
  // them.
  void Resume(uint32_t workers, MemoryClaim memory);

  // Adds the workers (without their memory and CPU time) and streams, and what the pool has done.
  void AppendStatus(v1::GetStatusResponse& response) const;
  // Adds what the pool has done alone.
  void AppendTotals(v1::GetStatusResponse& response) const;

 private:
  // A place for a worker; the process in it changes.
  struct Slot {
    uint32_t index = 0;
    uint32_t generation = 0;
    std::unique_ptr<PoolWorker> worker;  // null while its restart waits
    EventLoop::TimerId restart_timer = 0;
    uint32_t deaths = 0;         // in this place, since a lease was finished in it
    uint32_t failed_starts = 0;  // in a row, after which no worker was ready
    std::string last_end;        // of a worker, or of the attempt to start one; for people
    bool asked = false;          // by hand, for a replacement
    std::string slow;            // the stage that has become slow, for people
    double grew_by = 0;          // bytes a sample, the worker before the one that is started next
    // After a replacement that came to nothing.
    uint32_t failed_replacements = 0;
    int64_t no_replacement_before_ns = 0;
  };
  // A planned replacement: first the successor warms up, then the predecessor finishes and ends.
  struct Replacement {
    Slot* slot = nullptr;
    std::unique_ptr<PoolWorker> successor;
    std::unique_ptr<PoolWorker> predecessor;
    v1::Recycling record;
    int64_t drained_ns = 0;
  };

  // Leases that a worker may hold: what its threads work on, and as many waiting so that none runs
  // dry while a message travels.
  uint32_t Capacity() const { return 2 * (config_.whole_batches ? 1 : config_.threads); }

  // Streams and leases.
  void SendStream(PoolWorker& worker, const Stream& stream);
  bool CanTakeLease(const PoolWorker* worker) const;
  // Whether one more lease may have a worker meet its quota that is about to be replaced: it waits
  // for its successor then.
  bool WaitsForSuccessor(const PoolWorker& worker) const;
  bool GiveLease(PoolWorker& worker);
  // A record ended worker after worker, as Stream::Quarantine: tells the workers what is in
  // quarantine now, before any of them gets another lease.
  void Quarantine(Stream& stream, const std::string& record, const std::string& reason,
                  uint32_t deaths);
  // Sets a place apart for the next suspect, or gives it to the one that is. A place in which no
  // worker starts is given up for another.
  void GiveSuspect();
  Slot* SlotToSetApart() const;
  static bool Starts(const Slot& slot);
  void SendLease(PoolWorker& worker, const internal::v1::Lease& lease);
  void OnLeaseDone(PoolWorker& worker, const internal::v1::LeaseDone& done);
  void OnLeaseFailed(PoolWorker& worker, const internal::v1::LeaseFailed& failed);
  // One of the worker's leases was decided, whether or not its stream still lives. False when the
  // worker has no such lease.
  bool TakeBack(PoolWorker& worker, uint64_t stream_id, uint64_t lease_id);
  std::shared_ptr<Stream> FindStream(uint64_t stream_id) const;
  // Counts a death against the leases that the worker's threads were at, and ends the streams for
  // which that was one too many. Returns what the worker was at, for people; empty: nothing.
  std::string BlameLeases(const PoolWorker& worker, const FlightSnapshot& flight,
                          v1::ExitCause cause, const std::string& reason);
  // The same for one of them. Returns what the worker was at, for people.
  std::string BlameLease(const PoolWorker& worker, const FlightSnapshot& flight,
                         const Suspicion& suspicion, v1::ExitCause cause,
                         const std::string& reason);
  void ReportHang(const PoolWorker& worker, Stream& stream, const FlightSnapshot::Thread& thread,
                  const std::string& work) const;
  // The error of a stream whose lease ends worker after worker.
  absl::Status CrashLoop(uint32_t deaths, v1::ExitCause cause, const std::string& reason,
                         const std::string& work) const;

  // Processes.
  absl::StatusOr<std::unique_ptr<PoolWorker>> Spawn(Slot& slot);
  // Puts a worker into a place.
  static void Install(Slot& slot, std::unique_ptr<PoolWorker> worker);
  void StartWorker(Slot& slot);
  void OnStartFailed(Slot& slot, const absl::Status& status);
  void SendBinding(PoolWorker& worker);
  void OnMessage(PoolWorker& worker, const internal::v1::FromWorker& message);
  void OnBound(PoolWorker& worker, const internal::v1::Bound& bound);
  // Takes note of what a worker has loaded. False, and the pool has failed, when another one loaded
  // something else of the same name.
  bool NoteCode(const google::protobuf::RepeatedPtrField<v1::CodeFile>& files);
  void TellCode(const absl::StatusOr<std::vector<v1::CodeFile>>& code);
  void OnFailed(PoolWorker& worker, const internal::v1::Failed& failed);
  void OnExit(PoolWorker& worker, const WorkerEnd& end);
  // A worker met its quota, or hung, while it imported the user's code: another one would, too.
  void FailImport(const WorkerEnd& end);
  bool AnyReady() const;
  // A worker died without a lease, or could not be started.
  void NoteIdleDeath(const Slot& slot, absl::StatusCode code, const std::string& message);
  void RestartLater(Slot& slot);
  void RecordExit(const PoolWorker& worker, const WorkerEnd& end, const FlightSnapshot& flight,
                  uint32_t leases_redone) const;
  void FailAll(const absl::Status& status);
  // Of a parked pool: when no worker is left, lets go of their memory and resumes, if it shall.
  void OnUnmanned();
  // The owner of a worker, wherever it stands, emptied.
  std::unique_ptr<PoolWorker> TakeOut(PoolWorker& worker);
  void GiveSegmentsBack(PoolWorker& worker) const;
  // Every worker that lives: in places, warming up, ending, lost.
  void ForEachWorker(const std::function<void(PoolWorker&)>& visit) const;
  void AppendWorker(PoolWorker& worker, v1::GetStatusResponse& response) const;
  // `flight` without threads at samples of which the worker holds no lease: what is told of its
  // activity.
  FlightSnapshot WithinLeases(const PoolWorker& worker, FlightSnapshot flight) const;

  // Watching.
  void Watch();
  void ScheduleWatch(bool soon);
  // Between looks at workers that have work.
  absl::Duration BusyInterval() const;
  void CheckForHang(PoolWorker& worker, int64_t now_ns);
  // It finishes nothing, and none of its threads says why.
  bool IsStalled(const PoolWorker& worker, const FlightSnapshot& flight, int64_t now_ns) const;
  // Asks a worker one of whose threads hangs in the interpreter for its stacks. True while it may
  // still answer.
  bool AwaitsStacks(PoolWorker& worker, int64_t now_ns) const;
  // Tells the streams that have been without a batch for a while what their workers are at.
  void TellActivity(int64_t now_ns);
  std::string ActivityFor(const Stream& stream, int64_t now_ns) const;
  void WriteOff(PoolWorker& worker);
  // A replacement ends although its two workers live: its place in the budget stays taken until the
  // one that has none in the pool was reaped.
  void KeepPlaceUntilReaped();
  // The worker was written off: a replacement that it is part of goes on without it.
  void GiveUpReplacement(PoolWorker& worker);
  void ReadMemory(PoolWorker& worker, int64_t now_ns);
  static void CheckScratch(PoolWorker& worker);
  // Whether it would fill the quota in fewer looks than it takes to see that in time.
  bool GrowsFast(const MemoryGrowth& growth) const;
  // For a while.
  void LookMoreOften(int64_t now_ns);
  RecycleFacts FactsOf(const PoolWorker& worker, int64_t now_ns) const;
  std::optional<RecycleDecision> DecideFor(const Slot& slot, int64_t now_ns) const;
  // Whether the sample that one of its threads is at took more than a quarter of the quota.
  bool IsOneSamplesDoing(const PoolWorker& worker, const FlightSnapshot& flight) const;
  // What a sample has added to the worker's memory so far, in the thread with that number.
  uint64_t GrownBy(const PoolWorker& worker, const FlightSnapshot& flight, size_t thread) const;

  // Replacements.
  void ReplaceIfDue(int64_t now_ns);
  void BeginReplacement(Slot& slot, const RecycleDecision& decision, int64_t now_ns);
  void SendWarmUp(PoolWorker& successor);
  void OnWarmedUp(PoolWorker& worker, const internal::v1::WarmedUp& warmed_up);
  void EndIfDrained();
  void AbandonReplacement(const std::string& why);
  // The old worker is gone; not as planned: it died before it had done its leases.
  void FinishReplacement(bool as_planned);

  const PoolContext context_;
  const PipelineConfig config_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<std::shared_ptr<Stream>> streams_;
  std::vector<v1::SandboxPart> sandbox_;  // of the worker that was bound last
  std::unique_ptr<Replacement> replacement_;
  // Successors and predecessors that were killed and do not end.
  std::vector<std::unique_ptr<PoolWorker>> lost_;
  // How long the last replacements took to warm up; the longest counts.
  std::vector<absl::Duration> warm_ups_;
  bool writes_segments_ = false;  // workers get segments of the caches to write to
  size_t next_stream_ = 0;        // round robin
  EventLoop::TimerId watch_timer_ = 0;
  bool watch_soon_ = false;
  int64_t activity_told_ns_ = 0;
  bool parked_ = false;
  struct Resumption {
    uint32_t workers = 0;
    MemoryClaim memory;
  };
  std::optional<Resumption> resume_;  // of a parked pool whose workers end
  int64_t fast_until_ns_ = 0;  // some worker's memory grows fast: until then it is read more often
  absl::Status failure_;
  std::map<std::string, std::string> code_;  // digest by name
  // What the first worker had loaded when it was bound.
  std::optional<std::vector<v1::CodeFile>> first_code_;
  std::vector<CodeTold> wait_for_code_;
  // Whose cache segments its workers read and write: the trust domain, with the code of the user's,
  // so that what other code made is not taken for this one's. Empty until that is known.
  std::string segment_domain_;
  Slot* set_apart_ = nullptr;    // for a suspect
  uint32_t idle_deaths_ = 0;     // of workers without a lease, since a lease was finished
  uint32_t largest_lease_ = 16;  // in samples, so far
  uint64_t samples_ = 0;
  uint64_t samples_redone_ = 0;
  uint64_t past_substitutions_ = 0;  // of streams that are gone
  uint64_t past_delivered_ = 0;
  uint64_t leases_redone_ = 0;
  // Of workers that are gone.
  v1::JpegDecodes past_jpeg_;
  v1::KeptCounts past_kept_;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SUPERVISOR_WORKER_POOL_H_
