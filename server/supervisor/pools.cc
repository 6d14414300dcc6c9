#include "server/supervisor/pools.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "server/base/byte_size.h"
#include "server/base/error.h"

namespace bulkhead {
namespace {

// Interval of checks of workers without streams. Two checks show whether a worker is idle.
constexpr absl::Duration kRestInterval = absl::Milliseconds(300);
constexpr absl::Duration kWakeRetry = absl::Milliseconds(5);
constexpr absl::string_view kOthersNeed = "another stream needed the memory";

// Bytes of workers beyond those that their pools began with.
uint64_t SpareWorkerBytes(const Pools& pools) {
  uint64_t bytes = 0;
  pools.ForEach([&](WorkerPool& pool) {
    if (!pool.parked()) bytes += pool.spare().tuning.spare_bytes();
  });
  return bytes;
}

// Takes one of these from the pool with the most. False if none can go.
bool GiveUpSpareWorker(const Pools& pools) {
  WorkerPool* richest = nullptr;
  pools.ForEach([&](WorkerPool& pool) {
    if (pool.parked()) return;
    const uint64_t most = richest == nullptr ? 0 : richest->spare().tuning.spare_bytes();
    if (pool.spare().tuning.spare_bytes() > most) richest = &pool;
  });
  return richest != nullptr && richest->spare().tuning.GiveUpOne();
}

// The same of these workers and of the arenas in which groups share batches; these go first.
uint64_t SpareBytes(const Pools& pools) {
  uint64_t bytes = SpareWorkerBytes(pools);
  pools.ForEach([&](WorkerPool& pool) { bytes += pool.spare().share_groups.spare_bytes(); });
  return bytes;
}

bool GiveUpSpare(const Pools& pools) {
  bool given_up = false;
  pools.ForEach(
      [&](WorkerPool& pool) { given_up = given_up || pool.spare().share_groups.GiveUpOne(); });
  return given_up || GiveUpSpareWorker(pools);
}

}  // namespace

Pools::Pools(Config config)
    : config_(std::move(config)), loop_(*config_.context.loop), budget_(*config_.context.budget) {
  loop_.After(kRestInterval, [this] { DropIdle(); });
}

void Pools::RemoveStream(uint64_t stream_id) {
  for (Entry& entry : entries_) {
    if (entry.pool->RemoveStream(stream_id)) entry.idle_since_ns = MonotonicNanos();
  }
  DropIf(&Entry::is_over);
}

Pools::Entry* Pools::Find(const PipelineConfig& pipeline) {
  for (Entry& entry : entries_) {
    if (entry.pipeline().key == pipeline.key && !entry.pool->broken() &&
        !entry.pool->code().DiffersFrom(pipeline.code)) {
      return &entry;
    }
  }
  return nullptr;
}

Pools::Entry* Pools::Find(const WorkerPool* pool) {
  for (Entry& entry : entries_) {
    if (entry.pool.get() == pool) return &entry;
  }
  return nullptr;
}

Pools::Entry& Pools::Start(const PipelineConfig& pipeline, MemoryClaim claim) {
  PoolContext context = config_.context;
  context.memory = std::make_shared<MemoryClaim>(std::move(claim));
  context.make_room = [this](const MemoryBudget::Demand& demand) {
    loop_.Post([this, demand] { MakeRoomForSharing(demand); });
  };
  context.on_wanted = [this](WorkerPool* pool) { WakeSoon(pool); };
  PipelineConfig held_to = pipeline;
  if (!config_.enforce_quotas) held_to.quota_bytes = 0;
  const std::shared_ptr<MemoryClaim> memory = context.memory;
  auto pool = std::make_unique<WorkerPool>(std::move(context), std::move(held_to));
  entries_.push_back({std::move(pool), memory, MonotonicNanos()});
  return entries_.back();
}

uint64_t Pools::IdleBytes(const std::string& but_key) const {
  uint64_t bytes = 0;
  for (const Entry& entry : entries_) {
    // Memory of a pool whose workers already end is counted as returning.
    if (!entry.idle() || entry.pool->parked() || entry.pipeline().key == but_key) continue;
    bytes += entry.first_bytes();
  }
  return bytes;
}

void Pools::MakeRoomForSharing(const MemoryBudget::Demand& demand) {
  if (!budget_.CouldAdmit(demand, SpareWorkerBytes(*this) + IdleBytes(""))) return;
  while (!budget_.WillFitWholly(demand) && (GiveUpSpareWorker(*this) || DropLongestIdle(""))) {
  }
}

absl::Duration Pools::Entry::unread_for(int64_t now_ns) const {
  absl::Duration shortest = absl::InfiniteDuration();
  for (const auto& stream : pool->streams().all()) {
    if (!stream->config().for_others) shortest = std::min(shortest, stream->idle_for(now_ns));
  }
  // A stream that was promised these workers has not opened yet.
  const size_t clients = pool->streams().clients();
  const bool all_there = clients > 0 && clients >= admitted;
  return all_there && !pool->parked() ? shortest : absl::ZeroDuration();
}

uint64_t Pools::UnreadBytes(const std::string& but_key) const {
  const int64_t now_ns = MonotonicNanos();
  uint64_t bytes = 0;
  for (const Entry& entry : entries_) {
    const bool gives_workers = entry.pipeline().key != but_key;
    if (gives_workers && entry.unread_for(now_ns) >= config_.idle_stream) {
      bytes += entry.first_bytes();
    }
    for (const auto& stream : entry.pool->streams().all()) {
      if (stream->idle_for(now_ns) >= config_.idle_stream)
        bytes += stream->config().evictable_bytes();
    }
  }
  return bytes;
}

bool Pools::ParkUnreadPool(const std::string& but_key) {
  const int64_t now_ns = MonotonicNanos();
  std::vector<std::pair<absl::Duration, WorkerPool*>> unread;
  for (const Entry& entry : entries_) {
    if (entry.pipeline().key == but_key) continue;
    const absl::Duration quiet = entry.unread_for(now_ns);
    if (quiet >= config_.idle_stream) unread.emplace_back(quiet, entry.pool.get());
  }
  std::sort(unread.rbegin(), unread.rend());
  const auto parked =
      std::ranges::find_if(unread, [](const auto& candidate) { return candidate.second->Park(); });
  if (parked == unread.end()) return false;
  spdlog::info("pipeline {}: its streams are not read, so its workers are ended to free memory",
               parked->second->config().name);
  return true;
}

bool Pools::EvictUnreadStream() {
  const int64_t now_ns = MonotonicNanos();
  std::shared_ptr<Stream> longest;
  for (const Entry& entry : entries_) {
    for (const auto& stream : entry.pool->streams().all()) {
      const absl::Duration idle = stream->idle_for(now_ns);
      if (idle < config_.idle_stream || stream->config().evictable_bytes() == 0) continue;
      if (longest == nullptr || idle > longest->idle_for(now_ns)) longest = stream;
    }
  }
  if (longest == nullptr) return false;
  const StreamConfig& config = longest->config();
  spdlog::info("stream {} of rank {} is not read, so it is closed to free memory",
               config.about.name(), config.about.rank());
  config.memory->MarkReturning();
  longest->Fail(StreamIdle(config_.idle_stream, kOthersNeed), /*evict=*/true);
  RemoveStream(longest->id());
  return true;
}

bool Pools::MakeRoom(const MemoryBudget::Demand& demand, const std::string& but_key,
                     bool from_streams) {
  const uint64_t unread = from_streams ? UnreadBytes(but_key) : 0;
  if (!budget_.CouldAdmit(demand, SpareBytes(*this) + IdleBytes(but_key) + unread)) return false;
  while (!budget_.WillFitWholly(demand) && GiveUpSpare(*this)) {
  }
  while (!budget_.WillFitWholly(demand) && DropLongestIdle(but_key)) {
  }
  while (!budget_.CouldAdmit(demand, 0) && (ParkUnreadPool(but_key) || EvictUnreadStream())) {
  }
  return true;
}

void Pools::WakeSoon(WorkerPool* pool) {
  Entry* const entry = Find(pool);
  if (entry == nullptr || entry->waking) return;
  entry->waking = true;
  const int64_t deadline_ns = MonotonicNanos() + absl::ToInt64Nanoseconds(kReapPatience);
  loop_.Post([this, pool, deadline_ns] { Wake(pool, deadline_ns); });
}

void Pools::Wake(WorkerPool* pool, int64_t deadline_ns) {
  Entry* const entry = Find(pool);
  if (entry == nullptr) return;
  entry->waking = false;
  if (!pool->parked() || !pool->streams().has_work()) return;
  const MemoryBudget::Demand demand{.workers = pool->config().workers,
                                    .worker_quota_bytes = pool->config().quota_bytes};
  if (RoomComes(demand, pool->config().key) && MonotonicNanos() < deadline_ns) {
    Find(pool)->waking = true;  // dropping others may have moved the entry
    loop_.After(kWakeRetry, [this, pool, deadline_ns] { Wake(pool, deadline_ns); });
    return;
  }
  absl::StatusOr<MemoryBudget::Admission> admitted = budget_.Admit(demand);
  if (admitted.ok()) {
    pool->Resume(admitted->worker_count, std::move(admitted->workers));
    return;
  }
  const std::vector<std::shared_ptr<Stream>> streams = pool->streams().all();
  for (const auto& stream : streams) {
    if (stream->work().any) stream->Fail(StreamIdle(config_.idle_stream, kOthersNeed));
  }
}

std::optional<absl::StatusOr<Admission>> Pools::Admit(const PipelineConfig& pipeline, bool may_wait,
                                                      MemoryBudget::Demand& demand,
                                                      Legacy* legacy) {
  if (!ended_.ok()) return ended_;
  DropIf([&](const Entry& entry) {
    const bool outdated =
        entry.pipeline().key == pipeline.key && entry.pool->code().DiffersFrom(pipeline.code);
    return entry.idle() && (entry.pool->broken() || outdated);
  });
  Entry* entry = Find(pipeline);
  const bool has_workers = entry != nullptr && !entry->pool->parked();
  demand.workers = has_workers ? 0 : pipeline.workers;
  demand.worker_quota_bytes = pipeline.quota_bytes;
  demand.inherited_bytes = legacy == nullptr ? 0 : legacy->bytes();
  if (RoomComes(demand, pipeline.key) && may_wait) return std::nullopt;
  absl::StatusOr<MemoryBudget::Admission> admitted = budget_.Admit(demand);
  if (!admitted.ok()) return admitted.status();
  entry = Find(pipeline);  // dropping others may have moved the entry
  if (entry == nullptr) {
    PipelineConfig fitting = pipeline;
    fitting.workers = admitted->worker_count;
    fitting.missing_workers = pipeline.workers - fitting.workers;
    if (fitting.workers < pipeline.workers) {
      spdlog::info(
          "pipeline {}: {} of {} workers fit into the memory budget, which leaves {}; promised: {}",
          pipeline.name, fitting.workers, pipeline.workers, FormatBytes(budget_.free_bytes()),
          budget_.Arithmetic());
    }
    entry = &Start(fitting, std::move(admitted->workers));
  } else if (entry->pool->parked()) {
    entry->pool->Resume(admitted->worker_count, std::move(admitted->workers));
  }
  Admission admission;
  admission.worker_count = entry->pipeline().workers;
  admission.slot_count = admitted->slot_count;
  admission.arena = std::make_shared<MemoryClaim>(std::move(admitted->arena));
  if (legacy != nullptr) {
    admission.arena->Merge(legacy->Take());
    // It may have inherited more than it needs.
    const uint64_t wanted = uint64_t{admission.slot_count} * demand.slot_bytes;
    admission.arena->Split(admission.arena->bytes() - std::min(admission.arena->bytes(), wanted));
  }
  admission.pool = Reserve(*entry);
  return admission;
}

PoolSeat Pools::TrySeat(const PipelineConfig& pipeline, MemoryBudget::Demand demand) {
  if (!ended_.ok()) return nullptr;
  Entry* entry = Find(pipeline);
  if (entry != nullptr) return entry->pool->parked() ? nullptr : Reserve(*entry);
  demand.workers = pipeline.workers;
  demand.worker_quota_bytes = pipeline.quota_bytes;
  if (!budget_.FitsWholly(demand)) return nullptr;
  absl::StatusOr<MemoryBudget::Admission> admitted = budget_.Admit(demand);
  if (!admitted.ok()) return nullptr;
  return Reserve(Start(pipeline, std::move(admitted->workers)));
}

PoolSeat Pools::Reserve(Entry& entry) {
  ++entry.admitted;
  // The seat does not own the pool; it only reports its release. The loop outlives the caller, and
  // runs nothing more once this object is gone.
  return PoolSeat(entry.pool.get(), [this, loop = config_.context.loop](WorkerPool* pool) {
    loop->Post([this, pool] {
      Entry* const entry = Find(pool);
      if (entry == nullptr) return;
      --entry->admitted;
      entry->idle_since_ns = MonotonicNanos();
      DropIf(&Entry::is_over);
    });
  });
}

std::optional<absl::StatusOr<MemoryClaim>> Pools::AdmitDataset(uint64_t bytes, bool may_wait,
                                                               MemoryBudget::Demand& demand) {
  if (!ended_.ok()) return ended_;
  demand.workers = 1;  // a dataset counts as a worker that takes as much
  demand.worker_quota_bytes = bytes;
  if (RoomComes(demand, "") && may_wait) return std::nullopt;
  return budget_.AdmitWorker(bytes, "a dataset");
}

absl::StatusOr<MemoryClaim> Pools::AdmitIndexWorker(bool end_idle) {
  absl::StatusOr<MemoryClaim> claim = budget_.AdmitWorker(config_.index_worker_quota_bytes);
  if (claim.ok() || !end_idle) return claim;
  const MemoryBudget::Demand demand{.workers = 1,
                                    .worker_quota_bytes = config_.index_worker_quota_bytes};
  if (!MakeRoom(demand, "", /*from_streams=*/false)) {
    index_wait_began_ns_ = 0;
    return claim;
  }
  const int64_t now_ns = MonotonicNanos();
  // If no call has continued this wait for a while, a new one begins.
  const bool goes_on = index_wait_began_ns_ != 0 &&
                       absl::Nanoseconds(now_ns - index_wait_seen_ns_) < kReapPatience / 2;
  if (!goes_on) index_wait_began_ns_ = now_ns;
  index_wait_seen_ns_ = now_ns;
  if (absl::Nanoseconds(now_ns - index_wait_began_ns_) > kReapPatience) {
    index_wait_began_ns_ = 0;
    return claim;
  }
  return absl::UnavailableError("workers that were ended to free memory are not reaped yet");
}

bool Pools::DropLongestIdle(const std::string& but_key, bool with_dataset) {
  const Entry* longest = nullptr;
  for (const Entry& entry : entries_) {
    if (!entry.idle() || entry.pipeline().key == but_key) continue;
    if (with_dataset && entry.pipeline().datasets.empty()) continue;
    if (longest == nullptr || entry.idle_since_ns < longest->idle_since_ns) longest = &entry;
  }
  if (longest == nullptr) return false;
  spdlog::info("pipeline {}: its idle workers are ended to free memory",
               longest->pool->config().name);
  DropIf([pool = longest->pool.get()](const Entry& entry) { return entry.pool.get() == pool; });
  return true;
}

void Pools::SetLimit(uint64_t limit_bytes) {
  if (!budget_.SetLimit(limit_bytes)) return;
  spdlog::info("the memory limit is now {}", FormatBytes(limit_bytes));
  while (budget_.overdrawn() && (GiveUpSpare(*this) || DropLongestIdle(""))) {
  }
  if (budget_.overdrawn()) {
    spdlog::warn(
        "the memory limit was lowered to {}, and more than 90% of it is promised: {}; no stream "
        "can open until enough of them have ended",
        FormatBytes(limit_bytes), budget_.Arithmetic());
  }
}

void Pools::DropIdle() {
  const int64_t now = MonotonicNanos();
  const auto is_done = [&](const Entry& entry) {
    if (!entry.idle()) return false;
    const bool old = absl::Nanoseconds(now - entry.idle_since_ns) >= config_.idle_pool;
    if (old || entry.pool->broken()) return true;
    // Workers are kept for the next stream, but not if their threads keep working. Activity just
    // after the end of a stream still belongs to it.
    const bool ending = absl::Nanoseconds(now - entry.idle_since_ns) < kRestInterval / 3;
    const bool restless = !ending && entry.pool->IsRestless();
    if (restless) {
      spdlog::info("pipeline {}: its workers keep working without a stream, so they are ended",
                   entry.pool->config().name);
    }
    return restless;
  };
  DropIf(is_done);
  loop_.After(std::min(kRestInterval, config_.idle_pool / 4), [this] { DropIdle(); });
}

void Pools::DropIf(const std::function<bool(const Entry&)>& condition) {
  const auto dropped = std::stable_partition(entries_.begin(), entries_.end(),
                                             [&](const Entry& entry) { return !condition(entry); });
  std::vector<SharedFd> indexes;
  for (auto entry = dropped; entry != entries_.end(); ++entry) {
    entry->pool->AppendTotals(past_totals_);
    entry->memory->MarkReturning();
    const std::vector<SharedFd>& open = entry->pipeline().index_fds;
    indexes.insert(indexes.end(), open.begin(), open.end());
  }
  entries_.erase(dropped, entries_.end());
  // Closing a file may block on its disk.
  if (!indexes.empty()) config_.io->Post([gone = std::move(indexes)] {});
}

}  // namespace bulkhead
