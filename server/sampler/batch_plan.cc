#include "server/sampler/batch_plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"

namespace bulkhead {
namespace {

// How one epoch, or what is left of it, is cut: `full` global batches, then perhaps one that is not
// full.
struct EpochCut {
  uint64_t full = 0;
  uint64_t rest = 0;  // samples behind the full batches
  bool has_last = false;

  uint64_t batches() const { return full + (has_last ? 1 : 0); }
};

EpochCut Cut(const BatchPlan::Config& config, uint64_t left) {
  const uint64_t global_batch = config.world_size * config.batch_size;
  EpochCut cut{left / global_batch, left % global_batch, false};
  if (config.last == v1::LAST_BATCH_DROP) return cut;
  cut.has_last = cut.rest >= (config.last == v1::LAST_BATCH_PAD ? 1 : config.world_size);
  return cut;
}

}  // namespace

absl::Status BatchPlan::Check() const {
  if (batches_per_epoch() > 0) return absl::OkStatus();
  return MakeError(absl::StatusCode::kFailedPrecondition, reason::kNoSamples,
                   absl::StrCat("an epoch of ", config_.samples_per_epoch,
                                " samples does not fill one batch of ", config_.batch_size,
                                " on each of ", config_.world_size,
                                " ranks; use a smaller batch.size, or last: partial or pad"));
}

BatchPlan::BatchPlan(const Config& config) : config_(config) {}

uint64_t BatchPlan::batches_per_epoch() const {
  return Cut(config_, config_.samples_per_epoch).batches();
}

uint64_t BatchPlan::batches_left_in_first_epoch() const {
  return Cut(config_, config_.samples_per_epoch - config_.consumed).batches();
}

BatchRange BatchPlan::At(uint64_t sequence) const {
  uint64_t epoch = config_.first_epoch;
  uint64_t begin = config_.consumed;
  uint64_t index = sequence;
  if (const uint64_t in_first = batches_left_in_first_epoch(); sequence >= in_first) {
    const uint64_t per_epoch = batches_per_epoch();
    epoch += 1 + (sequence - in_first) / per_epoch;
    begin = 0;
    index = (sequence - in_first) % per_epoch;
  }

  const EpochCut cut = Cut(config_, config_.samples_per_epoch - begin);
  const uint64_t global_batch = config_.world_size * config_.batch_size;
  const uint64_t global_first = begin + index * global_batch;
  BatchRange range;
  range.epoch = epoch;
  if (index < cut.full || config_.last == v1::LAST_BATCH_PAD) {
    range.first_position = global_first + config_.rank * config_.batch_size;
    range.sample_count = config_.batch_size;
    range.valid_count =
        range.first_position >= config_.samples_per_epoch
            ? 0
            : std::min(config_.batch_size, config_.samples_per_epoch - range.first_position);
  } else {
    const uint64_t share = cut.rest / config_.world_size;
    const uint64_t larger = cut.rest % config_.world_size;  // ranks below it get one more
    range.first_position = global_first + config_.rank * share + std::min(config_.rank, larger);
    range.sample_count = share + (config_.rank < larger ? 1 : 0);
    range.valid_count = range.sample_count;
  }
  range.batches_left_in_epoch = cut.batches() - index - 1;
  const bool last = range.batches_left_in_epoch == 0;
  range.next_epoch = last ? epoch + 1 : epoch;
  range.next_consumed = last ? 0 : global_first + global_batch;
  return range;
}

}  // namespace bulkhead
