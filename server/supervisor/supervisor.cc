#include "server/supervisor/supervisor.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "server/base/error.h"
#include "server/os/monotonic_wait.h"
#include "server/os/process/thread.h"

namespace bulkhead {
namespace {

constexpr absl::Duration kLook = absl::Milliseconds(100);  // between checks of a silent loop
constexpr absl::Duration kSegmentsPatience = absl::Seconds(1);
constexpr absl::Duration kSegmentsTick = absl::Milliseconds(2);

// Calls `ask(may_wait)`, which fills in `demand`, until it has a value, while memory is about to
// come back.
template <typename Ask>
auto AwaitRoom(const MemoryBudget& budget, const MemoryBudget::Demand& demand, const Ask& ask) {
  const int64_t begin_ns = MonotonicNanos();
  while (true) {
    const absl::Duration left = kReapPatience - absl::Nanoseconds(MonotonicNanos() - begin_ns);
    auto answer = ask(/*may_wait=*/left > absl::ZeroDuration());
    if (answer.has_value()) return *std::move(answer);
    budget.AwaitRoom(demand, left);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Supervisor>> Supervisor::Start(Config config) {
  BULKHEAD_ASSIGN_OR_RETURN(auto loop, EventLoop::Create());
  BULKHEAD_ASSIGN_OR_RETURN(
      auto compartment,
      Compartment::Open({config.name, config.require_cgroup, {}, config.sandbox.seccomp()}));
  BULKHEAD_ASSIGN_OR_RETURN(auto budget, MemoryBudget::Create(config.memory));
  if (config.io == nullptr) {
    BULKHEAD_ASSIGN_OR_RETURN(config.io, IoThread::Start());
  }
  if (config.copier == nullptr && config.share_window > 0) {
    BULKHEAD_ASSIGN_OR_RETURN(config.copier, IoThread::Start());
  }
  return std::unique_ptr<Supervisor>(new Supervisor(std::move(config), std::move(loop),
                                                    std::move(compartment), std::move(budget)));
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
    return config;
  }
  // Coefficients and decoded images are a hundred times as large as seek entries.
  const bool stage = kind == internal::v1::CACHE_KIND_STAGE;
  folder.prefix = stage ? "cache" : "coefficients";
  folder.first_bytes = uint64_t{stage ? 64u : 16u} << 20;
  folder.largest_bytes = uint64_t{1} << 30;
  folder.builtin_serves_all = !stage;
  return config;
}

std::unique_ptr<ReadAheadHelper> StartReadAhead() {
  auto helper = ReadAheadHelper::Start();
  if (helper.ok()) return *std::move(helper);
  spdlog::warn("workers keep no more of the files in memory than their quotas allow: {}",
               std::string(helper.status().message()));
  return nullptr;
}

std::unique_ptr<ScratchFolders> OpenScratch(const Supervisor::Config& config) {
  if (config.scratch_folder.empty()) return nullptr;
  auto folders = ScratchFolders::Open(config.scratch_folder, config.name);
  if (folders.ok()) return *std::move(folders);
  spdlog::warn("workers with your code get no folder to write in: {}",
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
                     config_.io, [this] { pools_.TellSegments(); }),
      coefficient_segments_(
          SegmentsConfig(internal::v1::CACHE_KIND_COEFFICIENTS, config_.coefficients), loop_,
          config_.io, [this] { pools_.TellSegments(); }),
      stage_segments_(SegmentsConfig(internal::v1::CACHE_KIND_STAGE, config_.cache_stages), loop_,
                      config_.io, [this] { pools_.TellSegments(); }),
      read_ahead_(StartReadAhead()),
      scratch_(OpenScratch(config_)),
      pools_(PoolsConfig()),
      index_jobs_(std::make_unique<IndexJobs>(
          IndexJobs::Config{loop_,
                            {config_.worker_program, {}, {}, config_.worker_output, &spawner_},
                            config_.max_index_workers,
                            config_.timeouts,
                            &exits_,
                            compartment_.get(),
                            &replacement_gate_,
                            config_.index_worker_quota_bytes <= config_.memory.replacement_bytes,
                            [this](bool end_idle) { return pools_.AdmitIndexWorker(end_idle); }})) {
  if (config_.read_memory_limit != nullptr) {
    loop_->After(config_.limit_interval, [this] { CheckMemoryLimit(); });
  }
  thread_ = std::thread([this] {
    SetThreadName("supervisor");
    loop_->Run();
  });
}

Supervisor::~Supervisor() { Shutdown(); }

Pools::Config Supervisor::PoolsConfig() {
  WorkerPrograms programs{{config_.worker_program, config_.worker_args, config_.worker_environment},
                          config_.python_program};
  programs.native.output = programs.python.output = config_.worker_output;
  programs.native.spawner = programs.python.spawner = &spawner_;
  PoolContext context{.loop = loop_,
                      .programs = std::move(programs),
                      .timeouts = config_.timeouts,
                      .recycle = config_.recycle,
                      .exits = &exits_,
                      .gate = &replacement_gate_,
                      .compartment = compartment_.get(),
                      .sandbox = config_.sandbox,
                      .segments = {&seek_segments_, &stage_segments_, &coefficient_segments_},
                      .read_ahead = read_ahead_.get(),
                      .scratch = scratch_.get(),
                      .budget = budget_.get(),
                      .tracer = tracer_,
                      .copier = config_.copier,
                      .share_window = config_.share_window,
                      .new_stream_id = [this] { return next_stream_id_++; }};
  return {std::move(context),     config_.idle_pool,
          config_.idle_stream,    config_.index_worker_quota_bytes,
          config_.enforce_quotas, config_.io};
}

absl::StatusOr<uint64_t> Supervisor::BeginTrace(const std::string& stream_name,
                                                absl::Duration duration) {
  BULKHEAD_ASSIGN_OR_RETURN(const uint64_t number,
                            trace_log().Begin(stream_name, MonotonicNanos()));
  loop_->Post([tracer = tracer_, number, duration] { tracer->Take(number, duration); });
  return number;
}

bool Supervisor::Shutdown() {
  if (shut_down_) return ended_;
  shut_down_ = true;
  ended_ = TryOnLoop([this] {
    // Destroying a worker's handle kills it. The loop runs on until each has been reaped.
    pools_.Clear();
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
  // With the pools gone, the loop only watches for exits of workers.
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

void Supervisor::AwaitSegments(const PoolSeat& pool) {
  const int64_t deadline_ns = MonotonicNanos() + absl::ToInt64Nanoseconds(kSegmentsPatience);
  while (MonotonicNanos() < deadline_ns) {
    if (AskLoop([&] { return !pools_.ended().ok() || pool->segments().Lend(); })) return;
    absl::SleepFor(kSegmentsTick);
  }
}

std::vector<std::string> Supervisor::CodeOf(const std::string& pipeline_key) {
  std::vector<std::string> names;
  RunOnLoop([&] {
    pools_.ForEach([&](WorkerPool& pool) {
      if (pool.config().key != pipeline_key) return;
      for (const auto& [name, digest] : pool.code().digests()) names.push_back(name);
    });
  });
  return names;
}

void Supervisor::WhenLoaded(const PoolSeat& pool, LoadedCode::Told told) {
  loop_->Post([this, pool, told = std::move(told)]() mutable {
    if (pools_.ended().ok()) {
      pool->code().WhenKnown(std::move(told));
    } else {
      told(pools_.ended());
    }
  });
}

absl::StatusOr<Admission> Supervisor::Admit(const PipelineConfig& pipeline, uint32_t slot_count,
                                            uint64_t slot_bytes, Legacy* legacy,
                                            uint32_t more_slots) {
  MemoryBudget::Demand demand{
      .slot_count = slot_count, .slot_bytes = slot_bytes, .more_slots = more_slots};
  return AwaitRoom(*budget_, demand, [&](bool may_wait) {
    return AskLoop([&] { return pools_.Admit(pipeline, may_wait, demand, legacy); });
  });
}

absl::StatusOr<MemoryClaim> Supervisor::AdmitDataset(uint64_t bytes) {
  MemoryBudget::Demand demand;
  return AwaitRoom(*budget_, demand, [&](bool may_wait) {
    return AskLoop([&] { return pools_.AdmitDataset(bytes, may_wait, demand); });
  });
}

bool Supervisor::EndIdleWithDataset() {
  return AskLoop([&] { return pools_.EndIdleWithDataset(); });
}

PoolSeat Supervisor::TrySeat(const PipelineConfig& pipeline, uint32_t slot_count,
                             uint64_t slot_bytes) {
  const MemoryBudget::Demand demand{.slot_count = slot_count, .slot_bytes = slot_bytes};
  return AskLoop([&] { return pools_.TrySeat(pipeline, demand); });
}

uint64_t Supervisor::OpenStream(const PoolSeat& pool, StreamConfig config) {
  const uint64_t id = next_stream_id_++;
  loop_->Post([this, id, pool, config = std::move(config)]() mutable {
    if (!pools_.ended().ok()) {
      config.observer->OnFailed(pools_.ended());
      return;
    }
    config.about.set_pipeline(pool->config().name);
    config.tracer = tracer_;
    pool->AddStream(std::make_shared<Stream>(id, std::move(config), loop_,
                                             [pool = pool.get()] { pool->Dispatch(); }));
  });
  return id;
}

uint64_t Supervisor::AddIndexJob(IndexJob job) {
  *job.request.mutable_sandbox() = config_.sandbox;
  return AskLoop([&] {
    if (index_jobs_ != nullptr) return index_jobs_->Add(std::move(job));
    job.on_done(absl::CancelledError("the service has ended"));
    return uint64_t{0};
  });
}

void Supervisor::CancelIndexJob(uint64_t job_id) {
  RunOnLoop([&] {
    if (index_jobs_ != nullptr) index_jobs_->Cancel(job_id);
  });
}

uint32_t Supervisor::Recycle(const std::string& pipeline, std::optional<uint32_t> slot) {
  const auto count = std::make_shared<uint32_t>(0);
  const bool answered = TryOnLoop([this, pipeline, slot, count] {
    pools_.ForEach([&](WorkerPool& pool) {
      if (pipeline.empty() || pool.config().name == pipeline) *count += pool.Recycle(slot);
    });
  });
  return answered ? *count : 0;
}

v1::GetStatusResponse Supervisor::GetStatus(bool fresh_memory) {
  const auto said = std::make_shared<v1::GetStatusResponse>();
  const bool answered = TryOnLoop([this, said] {
    v1::GetStatusResponse& response = *said;
    compartment_->Describe(*response.mutable_containment());
    if (!config_.enforce_quotas) response.mutable_containment()->set_quota_level("off");
    pools_.AppendStatus(response);
    if (index_jobs_ != nullptr) index_jobs_->AppendStatus(response);
    exits_.AppendStatus(response);
    seek_segments_.Describe(*response.mutable_seek_cache());
    coefficient_segments_.Describe(*response.mutable_coefficient_cache());
    stage_segments_.Describe(*response.mutable_stage_cache());
    *response.mutable_memory() = budget_->Snapshot();
  });
  if (!answered) {
    v1::GetStatusResponse silent;
    silent.set_supervisor_silent_seconds(absl::ToDoubleSeconds(std::max(SilentFor(), kSilence)));
    return silent;
  }
  usage_.Fill(*said, fresh_memory);
  return *said;
}

std::map<v1::RecycleCause, uint64_t> Supervisor::RecyclingCounts() {
  const auto counts = std::make_shared<std::map<v1::RecycleCause, uint64_t>>();
  if (!TryOnLoop([this, counts] { *counts = exits_.recycling_counts(); })) return {};
  return *counts;
}

}  // namespace bulkhead
