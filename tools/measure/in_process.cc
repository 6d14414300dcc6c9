#include "tools/measure/in_process.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "server/base/checksum.h"
#include "server/base/error.h"
#include "server/sampler/batch_plan.h"
#include "tools/common/clock.h"
#include "tools/common/machine.h"
#include "tools/common/output_bytes.h"
#include "tools/local/local_pipeline.h"
#include "tools/local/local_thread.h"

namespace bulkhead::tools {
namespace {

// Threads take batches by turns and hand them in by number.
class Run {
 public:
  Run(const LocalPipeline& local, const BatchPlan& plan, uint64_t wanted, bool digest)
      : local_(local), plan_(plan), wanted_(wanted), digest_(digest) {}

  absl::StatusOr<StreamRunReport> Finish(uint32_t threads) {
    std::vector<std::thread> running;
    for (uint32_t i = 0; i < threads; ++i) running.emplace_back([this] { Work(); });
    for (std::thread& thread : running) thread.join();
    BULKHEAD_RETURN_IF_ERROR(status_);
    report_.elapsed_seconds = absl::ToDoubleSeconds(ProcessAge());
    const double seconds = std::max(1e-9, absl::ToDoubleSeconds(last_ - first_));
    report_.samples_per_second = static_cast<double>(samples_after_first_) / seconds;
    report_.bytes_per_second = static_cast<double>(bytes_after_first_) / seconds;
    report_.client_cpu_seconds = OwnCpuSeconds();
    report_.client_memory_bytes = OwnMemoryBytes();
    report_.threads_per_worker = threads;
    report_.transport = "in-process";
    if (digest_) report_.digest = hash_.FinishHex();
    return report_;
  }

 private:
  void Work() {
    LocalThread thread(local_, local_.schema().batch_size());
    const BatchRange end = plan_.At(wanted_);
    thread.WillProduce(0, end.epoch * local_.samples_per_epoch() + end.first_position);
    std::vector<std::byte> memory(local_.schema().batch_bytes());
    while (true) {
      std::unique_lock lock(mutex_);
      if (next_ == wanted_ || !status_.ok()) return;
      const uint64_t batch = next_++;
      lock.unlock();
      const BatchRange range = plan_.At(batch);
      const absl::Status status =
          thread.Produce(range.epoch, range.first_position,
                         static_cast<uint32_t>(range.valid_count), memory.data());
      lock.lock();
      if (!status.ok()) {
        if (status_.ok()) status_ = status;
        turn_.notify_all();
        return;
      }
      turn_.wait(lock, [&] { return done_ == batch || !status_.ok(); });
      if (!status_.ok()) return;
      Count(range.valid_count, memory.data());
      ++done_;
      turn_.notify_all();
    }
  }

  void Count(uint64_t samples, const std::byte* memory) {
    const absl::Time now = SteadyNow();
    uint64_t bytes = 0;
    ForEachOutput(local_.schema(), memory, samples, [&](absl::string_view output) {
      bytes += output.size();
      if (digest_) hash_.Update(output);
    });
    ++report_.batches;
    report_.samples += samples;
    report_.bytes += bytes;
    if (report_.batches == 1) {
      report_.first_batch_seconds = absl::ToDoubleSeconds(ProcessAge());
      first_ = now;
    } else {
      report_.gap_seconds.push_back(absl::ToDoubleSeconds(now - last_));
      samples_after_first_ += samples;
      bytes_after_first_ += bytes;
    }
    last_ = now;
  }

  const LocalPipeline& local_;
  const BatchPlan& plan_;
  const uint64_t wanted_;
  const bool digest_;

  std::mutex mutex_;
  std::condition_variable turn_;
  uint64_t next_ = 0;  // batch to be taken up
  uint64_t done_ = 0;  // batches counted
  absl::Status status_;
  StreamRunReport report_;
  Sha256 hash_;
  absl::Time first_;
  absl::Time last_;
  uint64_t samples_after_first_ = 0;
  uint64_t bytes_after_first_ = 0;
};

}  // namespace

absl::StatusOr<StreamRunReport> RunInProcess(const InProcessOptions& options) {
  BULKHEAD_ASSIGN_OR_RETURN(const v1::PipelineSpec spec, ReadSpecFile(options.spec));
  BULKHEAD_ASSIGN_OR_RETURN(const auto local, LocalPipeline::Create(spec, SpecFolder(options.spec),
                                                                    {.code = options.code}));
  const BatchPlan plan({.samples_per_epoch = local->samples_per_epoch(),
                        .batch_size = spec.batch().size(),
                        .last = spec.batch().last()});
  const uint64_t epochs = spec.has_epochs() ? spec.epochs() : 1;
  const uint64_t wanted = options.batches > 0 ? options.batches : epochs * plan.batches_per_epoch();
  if (plan.batches_per_epoch() == 0) {
    return absl::OutOfRangeError("an epoch has not one whole batch; lower batch.size");
  }
  return Run(*local, plan, wanted, options.digest).Finish(options.threads);
}

}  // namespace bulkhead::tools
