#include "server/supervisor/supervisor.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "server/base/byte_size.h"
#include "server/base/error.h"
#include "server/os/monotonic_wait.h"

namespace bulkhead {
namespace {

constexpr absl::Duration kReapPatience = absl::Seconds(2);
// Between looks at workers that have no stream: two of them tell who does not rest.
constexpr absl::Duration kRestInterval = absl::Milliseconds(300);
constexpr absl::Duration kLook = absl::Milliseconds(100);  // between looks at a silent loop
constexpr absl::Duration kSegmentsPatience = absl::Seconds(1);
constexpr absl::Duration kSegmentsTick = absl::Milliseconds(2);
constexpr absl::Duration kWakeRetry = absl::Milliseconds(5);

}  // namespace

absl::StatusOr<std::unique_ptr<Supervisor>> Supervisor::Start(Config config) {
  auto loop = EventLoop::Create();
  if (!loop.ok()) return loop.status();
  auto compartment =
      Compartment::Open({config.name, config.require_cgroup, {}, config.sandbox.seccomp()});
  if (!compartment.ok()) return compartment.status();
  auto budget = MemoryBudget::Create(config.memory);
  if (!budget.ok()) return budget.status();
  if (config.io == nullptr) {
    BULKHEAD_ASSIGN_OR_RETURN(config.io, IoThread::Start());
  }
  return std::unique_ptr<Supervisor>(new Supervisor(std::move(config), *std::move(loop),
                                                    *std::move(compartment), *std::move(budget)));
}

namespace {

CacheSegments::Config SegmentsConfig(internal::v1::CacheKind kind,
                                     const Supervisor::Config::Cache& cache) {
  CacheSegments::Config config;
  config.kind = kind;
  config.reason = cache.reason;
  if (cache.folder.empty()) return config;
  SegmentFolder::Config& folder = config.folder.emplace();
  folder.folder = cache.folder;
  folder.most_bytes = cache.bytes;
  if (kind == internal::v1::CACHE_KIND_SEEK) {
    folder.prefix = "seek";
  } else {
    // Decoded images are a hundred times as large as their seek entries.
    folder.prefix = "cache";
    folder.first_bytes = uint64_t{64} << 20;
    folder.largest_bytes = uint64_t{1} << 30;
  }
  return config;
}

std::unique_ptr<ScratchFolders> OpenScratch(const Supervisor::Config& config) {
  if (config.scratch_folder.empty()) return nullptr;
  auto folders = ScratchFolders::Open(config.scratch_folder, config.name);
  if (folders.ok()) return *std::move(folders);
  spdlog::warn("workers with code of yours get no folder to write in: {}",
               std::string(folders.status().message()));
  return nullptr;
}

}  // namespace

Supervisor::Supervisor(Config config, std::shared_ptr<EventLoop> loop,
                       std::unique_ptr<Compartment> compartment,
                       std::shared_ptr<MemoryBudget> budget)
    : config_(std::move(config)),
      loop_(std::move(loop)),
      budget_(std::move(budget)),
      compartment_(std::move(compartment)),
      seek_segments_(SegmentsConfig(internal::v1::CACHE_KIND_SEEK, config_.seek_entries), loop_,
                     config_.io, [this] { SendSegments(); }),
      stage_segments_(SegmentsConfig(internal::v1::CACHE_KIND_STAGE, config_.cache_stages), loop_,
                      config_.io, [this] { SendSegments(); }),
      scratch_(OpenScratch(config_)),
      index_jobs_(std::make_unique<IndexJobs>(
          loop_, WorkerProgram{config_.worker_program, {}, {}, config_.worker_output_fd},
          config_.max_index_workers, config_.timeouts, &exits_, compartment_.get(),
          IndexWorkersGate(), [this](bool end_idle) { return AdmitIndexWorker(end_idle); })) {
  if (config_.read_memory_limit != nullptr) {
    loop_->After(config_.limit_interval, [this] { CheckMemoryLimit(); });
  }
  loop_->After(kRestInterval, [this] { DropIdlePools(); });
  thread_ = std::thread([this] { loop_->Run(); });
}

Supervisor::~Supervisor() { Shutdown(); }

absl::Duration Supervisor::SilentFor() const {
  const absl::Duration silent = loop_->SilentFor();
  return silent < kSilence ? absl::ZeroDuration() : silent;
}

void Supervisor::EndStreams(const absl::Status& status) {
  TryOnLoop([this, status] {
    ending_ = status;
    for (const PoolEntry& entry : pools_) entry.pool->FailStreams(status);
  });
}

bool Supervisor::Shutdown() {
  if (shut_down_) return ended_;
  shut_down_ = true;
  ended_ = TryOnLoop([this] {
    // Destroying a worker's handle kills it; the loop goes on until each has been reaped.
    pools_.clear();
    index_jobs_.reset();
    StopWhenReaped(MonotonicNanos() + absl::ToInt64Nanoseconds(kReapPatience));
  });
  if (ended_) {
    thread_.join();
    scratch_.reset();
  } else {
    thread_.detach();
  }
  return ended_;
}

void Supervisor::StopWhenReaped(int64_t deadline_ns) {
  // With the pools gone, only the ends of workers are watched for.
  if (loop_->watched() == 0 || MonotonicNanos() >= deadline_ns) {
    loop_->Stop();
  } else {
    loop_->After(absl::Milliseconds(1), [this, deadline_ns] { StopWhenReaped(deadline_ns); });
  }
}

void Supervisor::RunOnLoop(const std::function<void()>& work) {
  absl::Notification done;
  loop_->Post([&] {
    work();
    done.Notify();
  });
  done.WaitForNotification();
}

bool Supervisor::TryOnLoop(std::function<void()> work) {
  const auto done = std::make_shared<absl::Notification>();
  loop_->Post([done, work = std::move(work)] {
    work();
    done->Notify();
  });
  while (!AwaitFor(*done, kLook)) {
    if (SilentFor() > absl::ZeroDuration()) return false;
  }
  return true;
}

void Supervisor::SendSegments() {
  for (const PoolEntry& entry : pools_) entry.pool->SendSegments();
}

void Supervisor::AwaitSegments(const PipelineConfig& pipeline) {
  const int64_t deadline_ns = MonotonicNanos() + absl::ToInt64Nanoseconds(kSegmentsPatience);
  while (MonotonicNanos() < deadline_ns) {
    bool settled = true;
    RunOnLoop([&] {
      const PoolEntry* entry = FindPool(pipeline);
      if (entry != nullptr) settled = entry->pool->LendSegments();
    });
    if (settled) return;
    absl::SleepFor(kSegmentsTick);
  }
}

Supervisor::PoolEntry* Supervisor::FindPool(const PipelineConfig& pipeline) {
  for (PoolEntry& entry : pools_) {
    if (entry.pool->config().key == pipeline.key && !entry.pool->broken() &&
        !entry.pool->RunsOther(pipeline.code)) {
      return &entry;
    }
  }
  return nullptr;
}

Supervisor::PoolEntry* Supervisor::AdmittedPool(const PipelineConfig& pipeline) {
  if (PoolEntry* const entry = FindPool(pipeline)) return entry;
  PoolEntry* admitted = nullptr;
  for (PoolEntry& entry : pools_) {
    if (entry.pool->config().key != pipeline.key || entry.admitted == 0) continue;
    if (admitted == nullptr || entry.pool->broken()) admitted = &entry;
  }
  return admitted;
}

std::vector<std::string> Supervisor::CodeOf(const std::string& pipeline_key) {
  std::vector<std::string> names;
  RunOnLoop([&] {
    for (const PoolEntry& entry : pools_) {
      if (entry.pool->config().key != pipeline_key) continue;
      for (const auto& [name, digest] : entry.pool->code()) names.push_back(name);
    }
  });
  return names;
}

void Supervisor::WhenLoaded(const PipelineConfig& pipeline, WorkerPool::CodeTold told) {
  loop_->Post([this, pipeline, told = std::move(told)]() mutable {
    PoolEntry* const entry = AdmittedPool(pipeline);
    if (!ending_.ok() || entry == nullptr) {
      told(ending_.ok() ? absl::UnavailableError("the pipeline's workers were given up") : ending_);
    } else {
      entry->pool->WhenLoaded(std::move(told));
    }
  });
}

Supervisor::PoolEntry* Supervisor::FindEntry(const WorkerPool* pool) {
  for (PoolEntry& entry : pools_) {
    if (entry.pool.get() == pool) return &entry;
  }
  return nullptr;
}

PipelineConfig Supervisor::HeldTo(PipelineConfig pipeline) const {
  if (!config_.enforce_quotas) pipeline.quota_bytes = 0;
  return pipeline;
}

Supervisor::PoolEntry& Supervisor::StartPool(const PipelineConfig& pipeline, MemoryClaim claim) {
  auto memory = std::make_shared<MemoryClaim>(std::move(claim));
  WorkerPrograms programs{{config_.worker_program, config_.worker_args, config_.worker_environment},
                          config_.python_program};
  programs.native.output_fd = programs.python.output_fd = config_.worker_output_fd;
  auto pool = std::make_unique<WorkerPool>(
      PoolContext{loop_, std::move(programs), config_.timeouts, config_.recycle, &exits_,
                  &replacement_gate_, compartment_.get(), config_.sandbox, &seek_segments_,
                  &stage_segments_, scratch_.get(), memory, budget_.get(),
                  [this](WorkerPool* pool) { WakeSoon(pool); }},
      HeldTo(pipeline));
  pool->Start();
  pools_.push_back({std::move(pool), std::move(memory), MonotonicNanos()});
  return pools_.back();
}

absl::StatusOr<Supervisor::Admission> Supervisor::Admit(const PipelineConfig& pipeline,
                                                        uint32_t slot_count, uint64_t slot_bytes,
                                                        Legacy* legacy) {
  MemoryBudget::Demand demand;
  demand.slot_count = slot_count;
  demand.slot_bytes = slot_bytes;
  const int64_t begin_ns = MonotonicNanos();
  while (true) {
    std::optional<absl::StatusOr<Admission>> admission;
    const absl::Duration left = kReapPatience - absl::Nanoseconds(MonotonicNanos() - begin_ns);
    const bool may_wait = left > absl::ZeroDuration();
    RunOnLoop([&] { admission = AdmitOnLoop(pipeline, may_wait, demand, legacy); });
    if (admission.has_value()) return *std::move(admission);
    budget_->AwaitRoom(demand, left);
  }
}

uint64_t Supervisor::IdleBytes(const std::string& but_key) const {
  uint64_t bytes = 0;
  for (const PoolEntry& entry : pools_) {
    // Of one whose workers end anyway it is on its way back.
    if (!entry.idle() || entry.pool->parked() || entry.pool->config().key == but_key) continue;
    bytes += entry.memory->quota_bytes();
  }
  return bytes;
}

absl::Duration Supervisor::PoolEntry::unread_for(int64_t now_ns) const {
  absl::Duration shortest = absl::InfiniteDuration();
  for (const auto& stream : pool->streams()) {
    shortest = std::min(shortest, stream->idle_for(now_ns));
  }
  // Some stream that was promised its workers is not there yet.
  const bool all_there = pool->streams().size() >= admitted;
  return all_there && !pool->idle() && !pool->parked() ? shortest : absl::ZeroDuration();
}

uint64_t Supervisor::UnreadBytes(const std::string& but_key) const {
  const int64_t now_ns = MonotonicNanos();
  uint64_t bytes = 0;
  for (const PoolEntry& entry : pools_) {
    const bool gives_workers = entry.pool->config().key != but_key;
    if (gives_workers && entry.unread_for(now_ns) >= config_.idle_stream) {
      bytes += entry.memory->quota_bytes();
    }
    for (const auto& stream : entry.pool->streams()) {
      if (stream->idle_for(now_ns) >= config_.idle_stream) bytes += stream->evictable_bytes();
    }
  }
  return bytes;
}

bool Supervisor::ParkUnreadPool(const std::string& but_key) {
  const int64_t now_ns = MonotonicNanos();
  std::vector<std::pair<absl::Duration, WorkerPool*>> unread;
  for (const PoolEntry& entry : pools_) {
    if (entry.pool->config().key == but_key) continue;
    const absl::Duration quiet = entry.unread_for(now_ns);
    if (quiet >= config_.idle_stream) unread.emplace_back(quiet, entry.pool.get());
  }
  std::sort(unread.rbegin(), unread.rend());
  const auto parked = std::find_if(unread.begin(), unread.end(),
                                   [](const auto& candidate) { return candidate.second->Park(); });
  if (parked == unread.end()) return false;
  spdlog::info(
      "pipeline {}: its streams are not read, and give up their workers, whose memory is needed",
      parked->second->config().name);
  return true;
}

bool Supervisor::EvictUnreadStream() {
  const int64_t now_ns = MonotonicNanos();
  std::shared_ptr<Stream> longest;
  for (const PoolEntry& entry : pools_) {
    for (const auto& stream : entry.pool->streams()) {
      const absl::Duration idle = stream->idle_for(now_ns);
      if (idle < config_.idle_stream || stream->evictable_bytes() == 0) continue;
      if (longest == nullptr || idle > longest->idle_for(now_ns)) longest = stream;
    }
  }
  if (longest == nullptr) return false;
  const StreamConfig& config = longest->config();
  spdlog::info("stream {} of rank {} is not read, and gives up its place, whose memory is needed",
               config.name, config.rank);
  config.memory->MarkReturning();
  longest->Evict(StreamIdle());
  for (PoolEntry& entry : pools_) {
    if (entry.pool->RemoveStream(longest->id())) entry.idle_since_ns = now_ns;
  }
  return true;
}

absl::Status Supervisor::StreamIdle() const {
  return MakeError(
      absl::StatusCode::kUnavailable, reason::kStreamIdle,
      absl::StrCat("no batch was taken for ", absl::FormatDuration(config_.idle_stream),
                   " or longer, and another stream needed the memory; open the stream again to "
                   "read on, which the clients do by themselves"));
}

bool Supervisor::MakeRoom(const MemoryBudget::Demand& demand, const std::string& but_key,
                          bool from_streams) {
  const uint64_t unread = from_streams ? UnreadBytes(but_key) : 0;
  if (!budget_->CouldAdmit(demand, IdleBytes(but_key) + unread)) return false;
  while (!budget_->WillFitWholly(demand) && DropLongestIdlePool(but_key)) {
  }
  while (!budget_->CouldAdmit(demand, 0) && (ParkUnreadPool(but_key) || EvictUnreadStream())) {
  }
  return true;
}

void Supervisor::WakeSoon(WorkerPool* pool) {
  PoolEntry* const entry = FindEntry(pool);
  if (entry == nullptr || entry->waking) return;
  entry->waking = true;
  const int64_t deadline_ns = MonotonicNanos() + absl::ToInt64Nanoseconds(kReapPatience);
  loop_->Post([this, pool, deadline_ns] { Wake(pool, deadline_ns); });
}

void Supervisor::Wake(WorkerPool* pool, int64_t deadline_ns) {
  PoolEntry* const entry = FindEntry(pool);
  if (entry == nullptr) return;
  entry->waking = false;
  if (!pool->parked() || !pool->has_work()) return;
  MemoryBudget::Demand demand;
  demand.workers = pool->config().workers;
  demand.worker_quota_bytes = pool->config().quota_bytes;
  if (MakeRoom(demand, pool->config().key, /*from_streams=*/true) && !budget_->FitsWholly(demand) &&
      budget_->returning_bytes() > 0 && MonotonicNanos() < deadline_ns) {
    FindEntry(pool)->waking = true;  // others were dropped, so it may have moved
    loop_->After(kWakeRetry, [this, pool, deadline_ns] { Wake(pool, deadline_ns); });
    return;
  }
  absl::StatusOr<MemoryBudget::Admission> admitted = budget_->Admit(demand);
  if (admitted.ok()) {
    pool->Resume(admitted->worker_count, std::move(admitted->workers));
    return;
  }
  const std::vector<std::shared_ptr<Stream>> streams = pool->streams();
  for (const auto& stream : streams) {
    if (stream->has_planned() || stream->has_suspect()) stream->Fail(StreamIdle());
  }
}

std::optional<absl::StatusOr<Supervisor::Admission>> Supervisor::AdmitOnLoop(
    const PipelineConfig& pipeline, bool may_wait, MemoryBudget::Demand& demand, Legacy* legacy) {
  if (!ending_.ok()) return ending_;
  DropPoolsIf([&](const PoolEntry& entry) {
    const bool outdated =
        entry.pool->config().key == pipeline.key && entry.pool->RunsOther(pipeline.code);
    return entry.idle() && (entry.pool->broken() || outdated);
  });
  PoolEntry* entry = FindPool(pipeline);
  const bool has_workers = entry != nullptr && !entry->pool->parked();
  demand.workers = has_workers ? 0 : pipeline.workers;
  demand.worker_quota_bytes = pipeline.quota_bytes;
  demand.inherited_bytes = legacy == nullptr ? 0 : legacy->bytes();
  if (MakeRoom(demand, pipeline.key, /*from_streams=*/true) && !budget_->FitsWholly(demand) &&
      may_wait && budget_->returning_bytes() > 0) {
    return std::nullopt;
  }
  absl::StatusOr<MemoryBudget::Admission> admitted = budget_->Admit(demand);
  if (!admitted.ok()) return admitted.status();
  entry = FindPool(pipeline);  // others were dropped, so it may have moved
  if (entry == nullptr) {
    PipelineConfig fitting = pipeline;
    fitting.workers = admitted->worker_count;
    if (fitting.workers < pipeline.workers) {
      spdlog::info("pipeline {}: {} of {} workers fit into the memory budget; promised are {}",
                   pipeline.name, fitting.workers, pipeline.workers, budget_->Arithmetic());
    }
    entry = &StartPool(fitting, std::move(admitted->workers));
  } else if (entry->pool->parked()) {
    entry->pool->Resume(admitted->worker_count, std::move(admitted->workers));
  }
  Admission admission;
  admission.worker_count = entry->pool->config().workers;
  admission.arena = std::make_shared<MemoryClaim>(std::move(admitted->arena));
  if (legacy != nullptr) {
    admission.arena->Merge(legacy->Take());
    // More may have come back, or have been left, than it needs.
    const uint64_t wanted = uint64_t{demand.slot_count} * demand.slot_bytes;
    admission.arena->Split(admission.arena->bytes() - std::min(admission.arena->bytes(), wanted));
  }
  admission.workers = Reserve(*entry);
  return admission;
}

std::shared_ptr<const void> Supervisor::Reserve(PoolEntry& entry) {
  ++entry.admitted;
  // Anything that lives; what counts is who lets go of it. The loop outlives whoever posts to it,
  // and runs nothing more when this object is gone.
  return std::shared_ptr<const void>(entry.pool.get(),
                                     [this, loop = loop_, pool = entry.pool.get()](const void*) {
                                       loop->Post([this, pool] {
                                         for (PoolEntry& entry : pools_) {
                                           if (entry.pool.get() != pool) continue;
                                           --entry.admitted;
                                           entry.idle_since_ns = MonotonicNanos();
                                         }
                                       });
                                     });
}

ReplacementGate* Supervisor::IndexWorkersGate() {
  const bool fits = config_.index_worker_quota_bytes <= config_.memory.replacement_bytes;
  return fits ? &replacement_gate_ : nullptr;
}

absl::StatusOr<MemoryClaim> Supervisor::AdmitIndexWorker(bool end_idle) {
  absl::StatusOr<MemoryClaim> claim = budget_->AdmitWorker(config_.index_worker_quota_bytes);
  if (claim.ok() || !end_idle) return claim;
  MemoryBudget::Demand demand;
  demand.workers = 1;
  demand.worker_quota_bytes = config_.index_worker_quota_bytes;
  if (!MakeRoom(demand, "", /*from_streams=*/false)) {
    index_wait_began_ns_ = 0;
    return claim;
  }
  const int64_t now_ns = MonotonicNanos();
  // A wait that nobody has been at for a while is another's.
  const bool goes_on = index_wait_began_ns_ != 0 &&
                       absl::Nanoseconds(now_ns - index_wait_seen_ns_) < kReapPatience / 2;
  if (!goes_on) index_wait_began_ns_ = now_ns;
  index_wait_seen_ns_ = now_ns;
  if (absl::Nanoseconds(now_ns - index_wait_began_ns_) > kReapPatience) {
    index_wait_began_ns_ = 0;
    return claim;
  }
  return absl::UnavailableError("workers that gave up their memory are not reaped yet");
}

bool Supervisor::DropLongestIdlePool(const std::string& but_key) {
  const PoolEntry* longest = nullptr;
  for (const PoolEntry& entry : pools_) {
    if (!entry.idle() || entry.pool->config().key == but_key) continue;
    if (longest == nullptr || entry.idle_since_ns < longest->idle_since_ns) longest = &entry;
  }
  if (longest == nullptr) return false;
  spdlog::info("pipeline {}: gives up its workers, whose memory is needed",
               longest->pool->config().name);
  DropPoolsIf(
      [pool = longest->pool.get()](const PoolEntry& entry) { return entry.pool.get() == pool; });
  return true;
}

void Supervisor::CheckMemoryLimit() {
  const uint64_t limit_bytes = config_.read_memory_limit();
  if (budget_->SetLimit(limit_bytes)) {
    spdlog::info("the memory limit is {} now", FormatBytes(limit_bytes));
    while (budget_->overdrawn() && DropLongestIdlePool("")) {
    }
    if (budget_->overdrawn()) {
      spdlog::warn(
          "the memory limit was lowered to {}, and more than 90% of it is promised: {}; no stream "
          "is opened until enough of them ended",
          FormatBytes(limit_bytes), budget_->Arithmetic());
    }
  }
  loop_->After(config_.limit_interval, [this] { CheckMemoryLimit(); });
}

uint64_t Supervisor::OpenStream(PipelineConfig pipeline, StreamConfig config) {
  const uint64_t id = next_stream_id_++;
  loop_->Post([this, id, pipeline = std::move(pipeline), config = std::move(config)]() mutable {
    if (!ending_.ok()) {
      config.observer->OnFailed(ending_);
      return;
    }
    PoolEntry* const entry = AdmittedPool(pipeline);
    WorkerPool& pool = *(entry != nullptr ? *entry : StartPool(pipeline, MemoryClaim())).pool;
    pool.AddStream(
        std::make_shared<Stream>(id, std::move(config), loop_, [&pool] { pool.Dispatch(); }));
  });
  return id;
}

void Supervisor::CloseStream(uint64_t stream_id) {
  loop_->Post([this, stream_id] {
    for (PoolEntry& entry : pools_) {
      if (entry.pool->RemoveStream(stream_id)) entry.idle_since_ns = MonotonicNanos();
    }
  });
}

void Supervisor::DropIdlePools() {
  const int64_t now = MonotonicNanos();
  const auto is_done = [&](const PoolEntry& entry) {
    if (!entry.idle()) return false;
    const bool old = absl::Nanoseconds(now - entry.idle_since_ns) >= config_.idle_pool;
    if (old || entry.pool->broken()) return true;
    // Its workers are kept for a next stream, and not for what threads of theirs go on doing. What
    // they do at first is the last stream's end.
    const bool ending = absl::Nanoseconds(now - entry.idle_since_ns) < kRestInterval / 3;
    const bool restless = !ending && entry.pool->IsRestless();
    if (restless) {
      spdlog::info("pipeline {}: its workers go on working without a stream, and are ended",
                   entry.pool->config().name);
    }
    return restless;
  };
  DropPoolsIf(is_done);
  loop_->After(std::min(kRestInterval, config_.idle_pool / 4), [this] { DropIdlePools(); });
}

void Supervisor::DropPoolsIf(const std::function<bool(const PoolEntry&)>& condition) {
  const auto dropped = std::stable_partition(
      pools_.begin(), pools_.end(), [&](const PoolEntry& entry) { return !condition(entry); });
  std::vector<SharedFd> indexes;
  for (auto entry = dropped; entry != pools_.end(); ++entry) {
    entry->pool->AppendTotals(past_totals_);
    entry->memory->MarkReturning();
    const std::vector<SharedFd>& open = entry->pool->config().index_fds;
    indexes.insert(indexes.end(), open.begin(), open.end());
  }
  pools_.erase(dropped, pools_.end());
  // To close a file may wait for its disk.
  if (!indexes.empty() && config_.io != nullptr) config_.io->Post([gone = std::move(indexes)] {});
}

uint64_t Supervisor::AddIndexJob(IndexJob job) {
  uint64_t id = 0;
  *job.request.mutable_sandbox() = config_.sandbox;
  RunOnLoop([&] {
    if (index_jobs_ != nullptr) {
      id = index_jobs_->Add(std::move(job));
    } else {
      job.on_done(absl::CancelledError("the service has ended"));
    }
  });
  return id;
}

void Supervisor::CancelIndexJob(uint64_t job_id) {
  RunOnLoop([&] {
    if (index_jobs_ != nullptr) index_jobs_->Cancel(job_id);
  });
}

uint32_t Supervisor::Recycle(const std::string& pipeline, std::optional<uint32_t> slot) {
  const auto count = std::make_shared<uint32_t>(0);
  const bool answered = TryOnLoop([this, pipeline, slot, count] {
    for (const PoolEntry& entry : pools_) {
      if (!pipeline.empty() && entry.pool->config().name != pipeline) continue;
      *count += entry.pool->Recycle(slot);
    }
  });
  return answered ? *count : 0;
}

v1::GetStatusResponse Supervisor::GetStatus() {
  const auto said = std::make_shared<v1::GetStatusResponse>();
  const bool answered = TryOnLoop([this, said] {
    v1::GetStatusResponse& response = *said;
    response = past_totals_;
    compartment_->Describe(*response.mutable_containment());
    if (!config_.enforce_quotas) response.mutable_containment()->set_quota_level("off");
    for (const PoolEntry& entry : pools_) entry.pool->AppendStatus(response);
    index_jobs_->AppendStatus(response);
    exits_.AppendStatus(response);
    seek_segments_.Describe(*response.mutable_seek_cache());
    stage_segments_.Describe(*response.mutable_stage_cache());
    *response.mutable_memory() = budget_->Snapshot();
  });
  if (!answered) {
    v1::GetStatusResponse silent;
    silent.set_supervisor_silent_seconds(absl::ToDoubleSeconds(std::max(SilentFor(), kSilence)));
    return silent;
  }
  usage_.Fill(*said);
  return *said;
}

std::map<v1::RecycleCause, uint64_t> Supervisor::RecyclingCounts() {
  const auto counts = std::make_shared<std::map<v1::RecycleCause, uint64_t>>();
  if (!TryOnLoop([this, counts] { *counts = exits_.recycling_counts(); })) return {};
  return *counts;
}

}  // namespace bulkhead
