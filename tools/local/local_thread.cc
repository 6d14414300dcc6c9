#include "tools/local/local_thread.h"

#include <algorithm>
#include <vector>

#include "server/base/error.h"

namespace bulkhead::tools {

LocalThread::LocalThread(const LocalPipeline& local, uint64_t step)
    : local_(local),
      step_(step),
      steps_per_epoch_((local.samples_per_epoch() + step - 1) / step),
      context_(local.pipeline().NewContext()) {
  if (local.fetcher() == nullptr) return;
  survey_ = local.pipeline().NewContext();
  ahead_.emplace(local.fetcher(), [this](uint64_t number, std::vector<ObjectPart>& parts) {
    AddParts(number, parts);
  });
}

uint64_t LocalThread::StepOf(uint64_t epoch, uint64_t position) const {
  return epoch * steps_per_epoch_ + position / step_;
}

void LocalThread::WillProduce(uint64_t first, uint64_t end) {
  const uint64_t samples = local_.samples_per_epoch();
  if (!ahead_.has_value() || first >= end) return;
  ahead_->WillRead(StepOf(first / samples, first % samples),
                   StepOf((end - 1) / samples, (end - 1) % samples) + 1);
}

void LocalThread::AddParts(uint64_t number, std::vector<ObjectPart>& parts) const {
  internal::v1::Survey survey;
  survey.set_epoch(number / steps_per_epoch_);
  survey.set_first_position(number % steps_per_epoch_ * step_);
  survey.set_count(
      static_cast<uint32_t>(std::min(step_, local_.samples_per_epoch() - survey.first_position())));
  for (const auto& object : PartsOf(local_.pipeline(), local_.stream(), survey, *survey_)) {
    for (int i = 0; i + 1 < object.bounds_size(); i += 2) {
      parts.push_back(
          {object.key(), object.bounds(i), object.bounds(i + 1), i == 0 ? object.bytes() : 0});
    }
  }
}

absl::Status LocalThread::WithParts(uint64_t epoch, uint64_t position,
                                    absl::FunctionRef<absl::Status()> produce) {
  return ahead_.has_value() ? ahead_->Read(StepOf(epoch, position), produce) : produce();
}

absl::Status LocalThread::ProduceSample(uint64_t epoch, uint64_t position,
                                        absl::Span<std::byte* const> destinations) {
  context_->judges_bytes = ahead_.has_value();
  return WithParts(epoch, position, [&] {
    if (ahead_.has_value()) context_->fetched_again = ahead_->fetched_again();
    return bulkhead::ProduceSample(local_.pipeline(), local_.stream(), epoch, position, *context_,
                                   destinations);
  });
}

absl::Status LocalThread::Produce(uint64_t epoch, uint64_t first_position, uint32_t count,
                                  std::byte* batch) {
  internal::v1::Lease lease;
  lease.set_epoch(epoch);
  lease.set_first_position(first_position);
  lease.set_count(count);
  std::vector<SubstitutedSample> substituted;
  uint64_t failed_position = 0;
  BULKHEAD_RETURN_IF_ERROR(WithParts(epoch, first_position, [&] {
    if (ahead_.has_value()) {
      const auto again = MergeParts(ahead_->fetched_again());
      *lease.mutable_fetched_again() = {again.begin(), again.end()};
    }
    substituted.clear();
    return ProduceLease(local_.pipeline(), local_.stream(), lease, *context_, batch, substituted,
                        failed_position);
  }));
  return FinishBatch(local_.pipeline(), local_.stream(), lease, *context_, batch);
}

}  // namespace bulkhead::tools
