#include "server/worker/lease_runner.h"

#include <unistd.h>

#include <algorithm>
#include <new>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/time/clock.h"
#include "server/arena/exit_codes.h"
#include "server/arena/worker_error.h"
#include "server/base/error.h"
#include "server/os/event_loop.h"
#include "server/sampler/mixture_order.h"
#include "server/worker/flight_notes.h"

namespace bulkhead {
namespace {

// Samples of a whole batch that a thread takes up at a time: as many as of other leases, fewer
// where the batch would keep some threads idle.
constexpr uint64_t kMaxPartSamples = 16;
uint64_t PartSamples(uint64_t samples, size_t threads) {
  return std::clamp<uint64_t>(samples / (2 * threads), 1, kMaxPartSamples);
}

internal::v1::FromWorker FailedLease(const internal::v1::Lease& lease, uint64_t position,
                                     const absl::Status& status) {
  internal::v1::FromWorker message;
  internal::v1::LeaseFailed& failed = *message.mutable_lease_failed();
  failed.set_lease_id(lease.lease_id());
  failed.set_stream_id(lease.stream_id());
  failed.set_position(position);
  *failed.mutable_error() = ToWorkerError(status);
  return message;
}

internal::v1::FromWorker DoneLease(const internal::v1::Lease& lease,
                                   const std::vector<SubstitutedSample>& substituted) {
  internal::v1::FromWorker message;
  internal::v1::LeaseDone& done = *message.mutable_lease_done();
  done.set_lease_id(lease.lease_id());
  done.set_stream_id(lease.stream_id());
  for (const SubstitutedSample& sample : substituted) {
    internal::v1::Substitution& substitution = *done.add_substitutions();
    substitution.set_position(sample.position);
    substitution.set_substitute_position(sample.substitute_position);
    *substitution.mutable_error() = ToWorkerError(sample.error);
  }
  return message;
}

// Whether the fault may pass: a network mount that hiccups, a file that is being replaced.
bool IsStorageError(const absl::Status& status) {
  const auto info = GetErrorInfo(status);
  return info.has_value() &&
         (info->reason == reason::kFileNotFound || info->reason == reason::kFileUnreadable);
}

// Whether every tensor of a full batch lies inside a slot.
bool SchemaFits(const internal::v1::StreamBinding& binding) {
  const v1::BatchSchema& schema = binding.schema();
  for (const v1::TensorSchema& tensor : schema.tensors()) {
    if (tensor.batch_offset() > binding.slot_bytes() ||
        tensor.sample_bytes() > (binding.slot_bytes() - tensor.batch_offset()) /
                                    std::max<uint64_t>(1, schema.batch_size())) {
      return false;
    }
  }
  return true;
}

absl::StatusOr<std::unique_ptr<SampleOrder>> OrderOf(const internal::v1::StreamBinding& binding) {
  if (!binding.mixed().empty()) {
    std::vector<MixedRecords> sources;
    for (const internal::v1::MixedOrder& mixed : binding.mixed()) {
      sources.push_back({mixed.weight(),
                         mixed.order(),
                         {mixed.file_records().begin(), mixed.file_records().end()}});
    }
    return MakeMixtureOrder(sources, binding.seed(), binding.samples_per_epoch());
  }
  if (std::accumulate(binding.file_records().begin(), binding.file_records().end(), uint64_t{0}) !=
      binding.samples_per_epoch()) {
    return absl::InvalidArgumentError("the files do not hold the samples of an epoch");
  }
  return MakeOrder(binding.order(), binding.seed(), binding.file_records());
}

absl::StatusOr<QuarantineSet> SetOf(
    const google::protobuf::RepeatedPtrField<std::string>& records) {
  QuarantineSet set;
  for (const std::string& record : records) {
    BULKHEAD_RETURN_IF_ERROR(set.Add(record).status());
  }
  return set;
}

}  // namespace

struct LeaseRunner::SharedLease {
  internal::v1::Lease lease;  // the whole
  HeldSlots::Hold hold;       // released by the thread that reports
  mutable absl::Mutex mutex;
  size_t parts_left ABSL_GUARDED_BY(mutex) = 0;
  std::vector<std::vector<SubstitutedSample>> substituted ABSL_GUARDED_BY(mutex);  // by part
  // The first part that failed; as many as there are parts: none did.
  size_t failed_part ABSL_GUARDED_BY(mutex) = 0;
  absl::Status error ABSL_GUARDED_BY(mutex);
  uint64_t failed_position ABSL_GUARDED_BY(mutex) = 0;

  bool succeeded() const {
    absl::MutexLock lock(&mutex);
    return error.ok();
  }
};

LeaseRunner::LeaseRunner(std::unique_ptr<Pipeline> pipeline, uint32_t threads, Report report,
                         absl::Duration retry_delay, absl::Duration progress_interval,
                         const FlightRecorder* recorder,
                         std::optional<uint64_t> decode_allowance_bytes, PipelineStores stores)
    : report_(std::move(report)),
      progress_(
          [this] {
            internal::v1::FromWorker message;
            message.mutable_lease_progress();
            report_(message);
          },
          progress_interval),
      pipeline_(std::move(pipeline)),
      retry_delay_(retry_delay),
      recorder_(recorder),
      stores_(stores) {
  if (decode_allowance_bytes.has_value()) allowance_.emplace(*decode_allowance_bytes, threads);
  if (recorder_ != nullptr) recorder_->SetStages(FlightStageNames(*pipeline_));
  for (uint32_t i = 0; i < threads; ++i) threads_.emplace_back([this, i] { Run(i); });
}

LeaseRunner::~LeaseRunner() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
}

absl::Status LeaseRunner::AddStream(const internal::v1::StreamBinding& binding, UniqueFd arena_fd) {
  if (!SchemaFits(binding)) return absl::InvalidArgumentError("the schema exceeds the slot");
  auto view = std::make_shared<StreamView>();
  view->binding = binding;
  BULKHEAD_ASSIGN_OR_RETURN(view->order, OrderOf(binding));
  BULKHEAD_ASSIGN_OR_RETURN(view->quarantined, SetOf(binding.quarantined()));
  BULKHEAD_ASSIGN_OR_RETURN(
      auto arena, Arena::Attach(std::move(arena_fd), binding.slot_bytes(), binding.slot_count()));
  auto state = std::make_shared<StreamState>();
  state->view = std::move(view);
  state->slots = std::make_shared<HeldSlots>(std::move(arena));
  state->on_destruct = [report = report_, id = binding.stream_id()] {
    internal::v1::FromWorker message;
    message.mutable_stream_removed()->set_stream_id(id);
    report(message);
  };
  absl::MutexLock lock(&mutex_);
  streams_[binding.stream_id()] = std::move(state);
  return absl::OkStatus();
}

absl::Status LeaseRunner::SetQuarantine(const internal::v1::SetQuarantine& quarantine) {
  BULKHEAD_ASSIGN_OR_RETURN(QuarantineSet set, SetOf(quarantine.quarantined()));
  absl::MutexLock lock(&mutex_);
  const auto found = streams_.find(quarantine.stream_id());
  if (found == streams_.end()) return absl::OkStatus();
  auto view = std::make_shared<StreamView>(*found->second->view);
  view->quarantined = std::move(set);
  found->second->view = std::move(view);
  return absl::OkStatus();
}

void LeaseRunner::RemoveStream(uint64_t stream_id) {
  std::shared_ptr<StreamState> removed;
  std::deque<Item> dropped;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = streams_.find(stream_id);
    if (found == streams_.end()) return;
    removed = std::move(found->second);
    streams_.erase(found);
    for (Item& item : std::exchange(queue_, {})) {
      (item.stream == removed ? dropped : queue_).push_back(std::move(item));
    }
  }
  for (Item& item : dropped) {
    if (item.rehearsal.has_value()) continue;
    if (item.shared != nullptr) {
      // Another part may still be at work; it reports then.
      if (EndPart(item, absl::CancelledError("the stream was removed"), item.lease.first_position(),
                  {})) {
        ReportShared(*item.shared);
      }
      continue;
    }
    item.hold.Release();
    report_(FailedLease(item.lease, item.lease.first_position() + item.lease.first_sample(),
                        absl::CancelledError("the stream was removed")));
  }
}

void LeaseRunner::WarmUp(const internal::v1::WarmUp& request) {
  // Called when the last item is gone, by whichever thread that is.
  const std::shared_ptr<double> touch_seconds(new double(0), [report = report_](double* seconds) {
    internal::v1::FromWorker message;
    message.mutable_warmed_up()->set_touch_seconds(*seconds);
    delete seconds;
    report(message);
  });
  std::vector<std::shared_ptr<StreamState>> streams;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [id, stream] : streams_) streams.push_back(stream);
    // As many samples as there are threads: while one works the others take the next.
    for (size_t i = 0; i < threads_.size() && request.positions_size() > 0; ++i) {
      const internal::v1::WarmUp::Position& position =
          request.positions(static_cast<int>(i % static_cast<size_t>(request.positions_size())));
      const auto found = streams_.find(position.stream_id());
      if (found == streams_.end()) continue;
      const uint64_t ahead = i / static_cast<size_t>(request.positions_size());
      Rehearsal rehearsal{position.epoch(), position.position() + ahead, touch_seconds};
      queue_.push_back({{}, found->second, found->second->view, std::move(rehearsal)});
    }
  }
  const int64_t begin_ns = MonotonicNanos();
  for (const auto& stream : streams) stream->slots->Prefault();
  *touch_seconds = absl::ToDoubleSeconds(absl::Nanoseconds(MonotonicNanos() - begin_ns));
}

void LeaseRunner::Answer(const internal::v1::Survey& survey) {
  std::shared_ptr<const StreamView> view;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = streams_.find(survey.stream_id());
    if (found == streams_.end()) return;  // its stream has ended
    view = found->second->view;
  }
  if (survey_context_ == nullptr) survey_context_ = pipeline_->NewContext();
  internal::v1::FromWorker message;
  message.mutable_surveyed()->set_stream_id(survey.stream_id());
  message.mutable_surveyed()->set_sequence(survey.sequence());
  for (internal::v1::ObjectParts& object : PartsOf(*pipeline_, *view, survey, *survey_context_)) {
    *message.mutable_surveyed()->add_objects() = std::move(object);
  }
  report_(message);
}

void LeaseRunner::Add(const internal::v1::Lease& lease) {
  bool queued = false;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = streams_.find(lease.stream_id());
    if (found != streams_.end()) {
      const std::shared_ptr<const StreamView>& view = found->second->view;
      const internal::v1::StreamBinding& binding = view->binding;
      // A part of a batch cannot be finished.
      const bool whole = lease.first_sample() == 0 || !pipeline_->has_batch_stages();
      if (whole && lease.slot() < binding.slot_count() &&
          uint64_t{lease.first_sample()} + lease.count() <= binding.schema().batch_size()) {
        for (Item& item : ItemsOf(lease, found->second)) queue_.push_back(std::move(item));
        queued = true;
      }
    }
  }
  if (!queued) {
    report_(FailedLease(lease, lease.first_position() + lease.first_sample(),
                        MakeError(absl::StatusCode::kInternal, reason::kInternal,
                                  "a lease named an unknown stream or lay outside its arena")));
  }
}

std::deque<LeaseRunner::Item> LeaseRunner::ItemsOf(
    const internal::v1::Lease& lease, const std::shared_ptr<StreamState>& stream) const {
  std::deque<Item> items;
  if (!pipeline_->has_batch_stages()) {
    items.push_back({lease, stream, stream->view, std::nullopt, nullptr, 0,
                     HeldSlots::Hold(stream->slots, lease.slot())});
    return items;
  }
  const auto shared = std::make_shared<SharedLease>();
  shared->lease = lease;
  shared->hold = HeldSlots::Hold(stream->slots, lease.slot());
  const uint64_t step = lease.one_thread() ? std::max<uint64_t>(1, lease.count())
                                           : PartSamples(lease.count(), threads_.size());
  for (uint64_t first = 0; first < std::max<uint64_t>(1, lease.count()); first += step) {
    internal::v1::Lease part = lease;
    part.set_first_sample(static_cast<uint32_t>(first));
    part.set_count(static_cast<uint32_t>(std::min<uint64_t>(step, lease.count() - first)));
    items.push_back(
        {std::move(part), stream, stream->view, std::nullopt, shared, items.size(), {}});
  }
  absl::MutexLock lock(&shared->mutex);
  shared->parts_left = shared->failed_part = items.size();
  shared->substituted.resize(items.size());
  return items;
}

void LeaseRunner::Run(uint32_t thread) {
  std::optional<FlightNotes> notes;
  if (recorder_ != nullptr) notes.emplace(*recorder_, thread);
  const std::unique_ptr<PipelineContext> context = pipeline_->NewContext();
  if (notes.has_value()) context->observer = &*notes;
  context->on_progress = [this] { progress_.Note(); };
  if (allowance_.has_value()) context->decode_share.SetAllowance(&*allowance_);
  context->stores = stores_;
  while (true) {
    Item item;
    {
      absl::MutexLock lock(&mutex_);
      const auto has_work = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return stopping_ || !queue_.empty();
      };
      mutex_.Await(absl::Condition(&has_work));
      if (stopping_) return;
      item = std::move(queue_.front());
      queue_.pop_front();
    }
    if (notes.has_value()) notes->BeginLease(item.lease.stream_id(), item.lease.lease_id());
    try {
      if (item.rehearsal.has_value()) {
        Rehearse(item, *context);
      } else {
        item.shared != nullptr ? ProducePart(item, *context) : Produce(item, *context);
      }
      if (notes.has_value()) notes->EndLease();
    } catch (const std::bad_alloc&) {
      // The quota refused an allocation that some library turned into an exception: no verdict on
      // the sample.
      if (notes.has_value()) notes->NoteRefusal();
      _exit(kExitOutOfMemory);
    }
  }
}

absl::Status LeaseRunner::ProduceWithRetries(const Item& item, PipelineContext& context,
                                             std::vector<SubstitutedSample>& substituted,
                                             uint64_t& failed_position) {
  absl::Duration delay = retry_delay_;
  for (int retry = 0;; ++retry, delay *= 2) {
    substituted.clear();
    const absl::Status status =
        ProduceLease(*pipeline_, *item.view, item.lease, context,
                     item.stream->slots->slot(item.lease.slot()), substituted, failed_position);
    if (retry == kReadRetries || !IsStorageError(status)) return status;
    absl::SleepFor(delay);
  }
}

void LeaseRunner::Rehearse(const Item& item, PipelineContext& context) {
  const v1::BatchSchema& schema = item.view->binding.schema();
  std::vector<std::vector<std::byte>> outputs;
  std::vector<std::byte*> destinations;
  for (const v1::TensorSchema& tensor : schema.tensors()) {
    outputs.emplace_back(tensor.sample_bytes());
    destinations.push_back(outputs.back().data());
  }
  RehearseSample(*pipeline_, *item.view, item.rehearsal->epoch, item.rehearsal->position, context,
                 destinations);
}

void LeaseRunner::Produce(Item& item, PipelineContext& context) {
  std::vector<SubstitutedSample> substituted;
  uint64_t failed_position = 0;
  item.hold.Begin();
  const absl::Status status = ProduceWithRetries(item, context, substituted, failed_position);
  item.hold.Release();
  report_(status.ok() ? DoneLease(item.lease, substituted)
                      : FailedLease(item.lease, failed_position, status));
}

void LeaseRunner::ProducePart(const Item& item, PipelineContext& context) {
  SharedLease& shared = *item.shared;
  bool in_vain = false;
  {
    absl::MutexLock lock(&shared.mutex);
    // One before it failed, and the first failure counts.
    in_vain = shared.failed_part < item.part;
  }
  std::vector<SubstitutedSample> substituted;
  uint64_t failed_position = 0;
  absl::Status status;
  if (!in_vain) {
    shared.hold.Begin();
    status = ProduceWithRetries(item, context, substituted, failed_position);
  }
  if (!EndPart(item, status, failed_position, std::move(substituted))) return;
  if (shared.succeeded()) {
    const absl::Status finished = FinishBatch(*pipeline_, *item.view, shared.lease, context,
                                              item.stream->slots->slot(shared.lease.slot()));
    absl::MutexLock lock(&shared.mutex);
    shared.error = finished;
    shared.failed_position = shared.lease.first_position();
  }
  ReportShared(shared);
}

bool LeaseRunner::EndPart(const Item& item, const absl::Status& status, uint64_t failed_position,
                          std::vector<SubstitutedSample> substituted) {
  SharedLease& shared = *item.shared;
  absl::MutexLock lock(&shared.mutex);
  shared.substituted[item.part] = std::move(substituted);
  if (!status.ok() && item.part < shared.failed_part) {
    shared.failed_part = item.part;
    shared.failed_position = failed_position;
    shared.error = status;
  }
  return --shared.parts_left == 0;
}

void LeaseRunner::ReportShared(SharedLease& shared) {
  shared.hold.Release();
  internal::v1::FromWorker message;
  {
    absl::MutexLock lock(&shared.mutex);
    std::vector<SubstitutedSample> substituted;
    for (const auto& part : shared.substituted) {
      substituted.insert(substituted.end(), part.begin(), part.end());
    }
    message = shared.error.ok() ? DoneLease(shared.lease, substituted)
                                : FailedLease(shared.lease, shared.failed_position, shared.error);
  }
  report_(message);
}

}  // namespace bulkhead
