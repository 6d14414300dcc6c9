#include "server/supervisor/supervisor.h"

#include <algorithm>
#include <utility>

#include "absl/synchronization/notification.h"

namespace bulkhead {
namespace {

constexpr absl::Duration kReapPatience = absl::Seconds(2);

}  // namespace

absl::StatusOr<std::unique_ptr<Supervisor>> Supervisor::Start(Config config) {
  auto loop = EventLoop::Create();
  if (!loop.ok()) return loop.status();
  auto compartment = Compartment::Open({config.name, config.require_cgroup, {}});
  if (!compartment.ok()) return compartment.status();
  return std::unique_ptr<Supervisor>(
      new Supervisor(std::move(config), *std::move(loop), *std::move(compartment)));
}

Supervisor::Supervisor(Config config, std::shared_ptr<EventLoop> loop,
                       std::unique_ptr<Compartment> compartment)
    : config_(std::move(config)),
      loop_(std::move(loop)),
      compartment_(std::move(compartment)),
      index_jobs_(std::make_unique<IndexJobs>(loop_, config_.worker_program,
                                              config_.max_index_workers, config_.timeouts, &exits_,
                                              compartment_.get())) {
  loop_->After(config_.idle_pool / 4, [this] { DropIdlePools(); });
  thread_ = std::thread([this] { loop_->Run(); });
}

Supervisor::~Supervisor() { Shutdown(); }

void Supervisor::EndStreams(const absl::Status& status) {
  RunOnLoop([&] {
    ending_ = status;
    for (const PoolEntry& entry : pools_) entry.pool->FailStreams(status);
  });
}

void Supervisor::Shutdown() {
  if (shut_down_) return;
  shut_down_ = true;
  RunOnLoop([&] {
    // Destroying a worker's handle kills it; the loop goes on until each has been reaped.
    pools_.clear();
    index_jobs_.reset();
    StopWhenReaped(MonotonicNanos() + absl::ToInt64Nanoseconds(kReapPatience));
  });
  thread_.join();
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

WorkerPool& Supervisor::PoolFor(const PipelineConfig& pipeline) {
  for (const PoolEntry& entry : pools_) {
    if (entry.pool->config().key == pipeline.key && !entry.pool->broken()) return *entry.pool;
  }
  auto pool = std::make_unique<WorkerPool>(
      PoolContext{loop_, config_.worker_program, config_.timeouts, config_.recycle, &exits_,
                  &replacement_gate_, compartment_.get(), config_.sandbox},
      pipeline);
  pool->Start();
  pools_.push_back({std::move(pool), MonotonicNanos()});
  return *pools_.back().pool;
}

uint64_t Supervisor::OpenStream(PipelineConfig pipeline, StreamConfig config) {
  const uint64_t id = next_stream_id_++;
  loop_->Post([this, id, pipeline = std::move(pipeline), config = std::move(config)]() mutable {
    if (!ending_.ok()) {
      config.observer->OnFailed(ending_);
      return;
    }
    WorkerPool& pool = PoolFor(pipeline);
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
    const bool old = absl::Nanoseconds(now - entry.idle_since_ns) >= config_.idle_pool;
    return entry.pool->idle() && (old || entry.pool->broken());
  };
  for (const PoolEntry& entry : pools_) {
    if (is_done(entry)) entry.pool->AppendTotals(past_totals_);
  }
  pools_.erase(std::remove_if(pools_.begin(), pools_.end(), is_done), pools_.end());
  loop_->After(config_.idle_pool / 4, [this] { DropIdlePools(); });
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
  uint32_t count = 0;
  RunOnLoop([&] {
    for (const PoolEntry& entry : pools_) {
      if (!pipeline.empty() && entry.pool->config().name != pipeline) continue;
      count += entry.pool->Recycle(slot);
    }
  });
  return count;
}

v1::GetStatusResponse Supervisor::GetStatus() {
  v1::GetStatusResponse response;
  RunOnLoop([&] {
    response = past_totals_;
    compartment_->Describe(*response.mutable_containment());
    for (const PoolEntry& entry : pools_) entry.pool->AppendStatus(response);
    index_jobs_->AppendStatus(response);
    exits_.AppendStatus(response);
  });
  usage_.Fill(response);
  return response;
}

}  // namespace bulkhead
