#include "server/supervisor/leases/stream.h"

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/arena/code_files.h"
#include "server/arena/worker_error.h"
#include "server/base/error.h"
#include "server/base/record_name.h"
#include "server/base/shell_quoted.h"
#include "server/supervisor/leases/lease_word.h"

namespace bulkhead {
namespace {

// Under policy `fail` a person decides, not the service.
absl::Status PoisonSample(const std::string& record, const std::string& reason, uint32_t deaths) {
  const std::string command = absl::StrCat("bulkhead quarantine add ", ShellQuoted(record));
  std::map<std::string, std::string> metadata = RecordMetadata(record);
  metadata["cause"] = reason;
  metadata["deaths"] = absl::StrCat(deaths);
  metadata["command"] = command;
  return MakeError(
      absl::StatusCode::kFailedPrecondition, reason::kPoisonSample,
      absl::StrCat(record, " ended ", deaths,
                   " fresh workers that did nothing else; the last one: ", reason,
                   ". Repair the record, or leave it out: errors.policy: substitute puts "
                   "such a record into quarantine and takes another, and `",
                   command,
                   "` spares the next run the workers that finding it costs; where the service "
                   "ended with its trainer, start bulkheadd on the same cache folder for that"),
      std::move(metadata));
}

// Batches of its epoch that are left after this one: later ones that were not delivered before it
// (`ahead`, by sequence), and older ones that are still pending.
uint64_t LeftInEpoch(const LeaseTable::FinishedBatch& batch, const std::set<uint64_t>& ahead) {
  const auto behind = ahead.upper_bound(batch.header.sequence());
  return batch.header.batches_left_in_epoch() -
         static_cast<uint64_t>(std::distance(behind, ahead.end())) + batch.older;
}

v1::TraceMoment BegunMoment(const v1::BatchHeader& header) {
  v1::TraceMoment moment;
  moment.set_kind(v1::TraceMoment::KIND_BATCH_BEGUN);
  moment.set_batch(header.sequence());
  moment.set_epoch(header.epoch());
  moment.set_first_position(header.first_position());
  moment.set_samples(static_cast<uint32_t>(header.sample_count()));
  return moment;
}

v1::TraceMoment MomentOfLease(v1::TraceMoment::Kind kind, uint64_t lease_id,
                              LeaseTable::WorkerId worker) {
  v1::TraceMoment moment;
  moment.set_kind(kind);
  moment.set_lease(lease_id);
  moment.set_worker(worker);
  return moment;
}

v1::TraceMoment GivenMoment(const internal::v1::Lease& lease, LeaseTable::WorkerId worker) {
  v1::TraceMoment moment =
      MomentOfLease(v1::TraceMoment::KIND_LEASE_GIVEN, lease.lease_id(), worker);
  moment.set_epoch(lease.epoch());
  moment.set_first_position(lease.first_position());
  moment.set_samples(lease.count());
  moment.set_first_sample(lease.first_sample());
  return moment;
}

// Counts and reports a batch's substitutions; an error if there are too many.
absl::Status CountSubstitutions(const StreamConfig& config, LeaseTable::FinishedBatch& batch,
                                SubstitutionCounts& counts, StreamNotes& notes) {
  if (batch.header.epoch() != counts.epoch) {
    counts.epoch = batch.header.epoch();
    counts.in_epoch = 0;
  }
  for (const internal::v1::Substitution& substitution : batch.substitutions) {
    ++counts.in_epoch;
    ++counts.total;
    v1::SampleEvent event;
    event.set_kind(v1::SampleEvent::KIND_SUBSTITUTED);
    event.set_epoch(counts.epoch);
    event.set_position(substitution.position());
    event.set_substitute_position(substitution.substitute_position());
    event.set_message(substitution.error().message());
    event.set_reason(substitution.error().reason());
    *event.mutable_metadata() = substitution.error().metadata();
    config.observer->OnEvent(event);
    if (!config.for_others) notes.Count(StreamNotes::kSubstitution, event.message());
    // With assignments only the client knows all substitutions of the epoch.
    const bool limited = config.assignments == nullptr;
    if (limited && counts.in_epoch > config.max_substitutions_per_epoch) {
      return Annotate(
          MakeError(absl::StatusCode::kDataLoss, reason::kTooManySubstitutions,
                    absl::StrCat("epoch ", counts.epoch, " needed ", counts.in_epoch,
                                 " substitutions on this rank, errors.max_fraction allows ",
                                 config.max_substitutions_per_epoch,
                                 "; the last one was for: ", substitution.error().message())),
          "", {substitution.error().metadata().begin(), substitution.error().metadata().end()});
    }
  }
  // The cursor after the last batch of an epoch starts a new epoch, without substitutions.
  const bool last = config.ordered ? batch.header.next_epoch() != counts.epoch
                                   : batch.header.batches_left_in_epoch() == 0;
  batch.header.set_substituted(batch.substitutions.size());
  if (config.assignments == nullptr) {
    batch.header.set_substitutions(last ? 0 : counts.in_epoch);
  }
  return absl::OkStatus();
}

StreamTrace TraceOf(uint64_t id, const StreamConfig& config) {
  if (config.tracer == nullptr) return {};
  v1::TracedStream stream;
  stream.set_id(id);
  stream.set_name(config.about.name());
  stream.set_rank(config.about.rank());
  stream.set_pipeline(config.about.pipeline());
  return {config.tracer->log(), std::move(stream)};
}

}  // namespace

absl::Status StreamIdle(absl::Duration timeout, absl::string_view why) {
  return MakeError(absl::StatusCode::kUnavailable, reason::kStreamIdle,
                   absl::StrCat("no batch was taken for ", absl::FormatDuration(timeout),
                                " or longer, and ", why,
                                "; open the stream again to continue; the clients do so by "
                                "themselves"));
}

Stream::Stream(uint64_t id, StreamConfig config, std::shared_ptr<EventLoop> loop,
               std::function<void()> wake)
    : id_(id),
      config_(std::move(config)),
      loop_(std::move(loop)),
      wake_(std::move(wake)),
      leases_(
          id, config_.arena->slot_count(),
          SamplesOfLease(config_.binding.schema().batch_size(), config_.binding.whole_batches()),
          config_.ordered),
      brought_(id, leases_,
               [this] {
                 DeliverFinished();
                 wake_();
               }),
      quarantined_(config_.quarantined),
      quarantine_digest_(quarantined_.Digest()),
      ahead_(config_.completed.begin(), config_.completed.end()),
      counts_{config_.first_epoch, config_.substitutions_so_far},
      trace_(TraceOf(id, config_)),
      trace_hook_(config_.tracer, [this] {
        if (!trace_.on()) return;
        trace_.Tell();
        leases_.ForEachPending(
            [this](const v1::BatchHeader& header) { trace_.Note(BegunMoment(header)); },
            [this](const internal::v1::Lease& lease, LeaseTable::WorkerId worker) {
              if (worker < BroughtBatches::kFirstBringer) trace_.Note(GivenMoment(lease, worker));
            });
        if (config_.meter != nullptr) config_.meter->NoteWait();
      }) {
  if (config_.fetcher.fetch) {
    const auto on_news = [this] {
      BeginBatches();
      wake_();
    };
    inputs_ = std::make_unique<StreamInputs>(config_.fetcher, loop_, config_.meter, on_news,
                                             [this](const absl::Status& status) { Fail(status); });
    waits_since_ns_ = MonotonicNanos();
  }
  if (config_.meter != nullptr) config_.meter->SetTrace(trace_);
  for (const v1::CodeFile& file : config_.code) code_.emplace(file.name(), file.digest());
}

void Stream::BeginBatches() {
  while (!finished_ && leases_.has_free_slot()) {
    const auto header = NextBatch();
    if (!header.has_value()) {
      if (exhausted_) DeliverFinished();
      break;
    }
    begun_sequence_ = header->sequence();
    if (leases_.pending() == 0) waits_since_ns_ = MonotonicNanos();
    if (trace_.on()) trace_.Note(BegunMoment(*header));
    brought_.Begin(*header, quarantine_digest_);
  }
  if (inputs_ != nullptr) inputs_->SetIdle(leases_.pending() == 0 && leases_.has_free_slot());
}

std::optional<v1::BatchHeader> Stream::NextBatch() {
  // The next one to make, wherever its bytes are.
  const auto plan = [this]() -> std::optional<v1::BatchHeader> {
    if (config_.assignments == nullptr) {
      while (ahead_.count(next_sequence_) > 0) ++next_sequence_;
      auto header = config_.batch_at(next_sequence_);
      exhausted_ = !header.has_value();
      if (header.has_value()) ++next_sequence_;
      return header;
    }
    while (const auto sequence = config_.assignments->Take()) {
      if (auto header = config_.batch_at(*sequence)) return header;
      config_.assignments->NoteSent(*sequence);  // there is no such batch
    }
    exhausted_ = config_.assignments->exhausted();
    return std::nullopt;
  };
  if (config_.assignments != nullptr && !std::exchange(listens_, true)) {
    config_.assignments->WhenAdded([loop = loop_, weak = weak_from_this()] {
      loop->Post([weak] {
        const std::shared_ptr<Stream> stream = weak.lock();
        if (stream == nullptr) return;
        stream->BeginBatches();
        stream->wake_();
      });
    });
  }
  if (inputs_ == nullptr) return plan();
  while (inputs_->HasRoom()) {
    const auto header = plan();
    if (!header.has_value()) break;
    inputs_->Add(*header);
  }
  return inputs_->Take();
}

std::optional<internal::v1::Lease> Stream::Assign(LeaseTable::WorkerId worker, bool suspect,
                                                  uint64_t most_samples) {
  if (finished_ || (inputs_ != nullptr && inputs_->waits())) return std::nullopt;
  std::optional<internal::v1::Lease> lease = leases_.Assign(worker, suspect, most_samples);
  if (lease.has_value() && suspect) lease->set_one_thread(true);
  if (lease.has_value() && inputs_ != nullptr) inputs_->AddFetchedAgain(*lease);
  if (lease.has_value() && trace_.on()) trace_.Note(GivenMoment(*lease, worker));
  return lease;
}

std::optional<std::pair<uint64_t, uint64_t>> Stream::NextPosition() const {
  if (finished_) return std::nullopt;
  const auto header = config_.batch_at(begun_sequence_);
  if (!header.has_value()) return std::nullopt;
  return std::make_pair(header->epoch(), header->first_position());
}

absl::Status Stream::CheckWord(const internal::v1::LeaseDone& done,
                               LeaseTable::WorkerId worker) const {
  const auto lease = leases_.HeldLease(done.lease_id(), worker);
  if (finished_ || !lease.has_value()) return absl::OkStatus();  // ignored
  return CheckSubstitutions(*lease, config_.binding, config_.partners, done);
}

std::optional<uint32_t> Stream::Complete(const internal::v1::LeaseDone& done,
                                         LeaseTable::WorkerId worker) {
  const auto samples = leases_.Complete(done.lease_id(), worker,
                                        {done.substitutions().begin(), done.substitutions().end()});
  if (samples.has_value()) {
    if (trace_.on()) {
      trace_.Note(MomentOfLease(v1::TraceMoment::KIND_LEASE_DONE, done.lease_id(), worker));
    }
    DeliverFinished();
  } else {
    BeginBatches();  // a late report may have returned a lost slot
  }
  return samples;
}

Stream::Work Stream::work() const {
  if (finished_) return {};
  const bool waits = inputs_ != nullptr && inputs_->waits();
  const bool asks = inputs_ != nullptr && inputs_->HasSurvey(MonotonicNanos());
  return {asks || (!waits && (leases_.has_suspect() || leases_.has_planned())),
          !waits && leases_.has_suspect()};
}

bool Stream::FailLease(const internal::v1::LeaseFailed& failure, LeaseTable::WorkerId worker) {
  if (inputs_ != nullptr &&
      inputs_->FetchMissing(leases_.HeldLease(failure.lease_id(), worker), failure.error())) {
    return leases_.Fail(failure.lease_id(), worker, failure, /*again=*/true);
  }
  if (!leases_.Fail(failure.lease_id(), worker, failure)) {
    BeginBatches();
    return false;
  }
  if (trace_.on()) {
    trace_.Note(MomentOfLease(v1::TraceMoment::KIND_LEASE_FAILED, failure.lease_id(), worker));
  }
  DeliverFinished();
  return true;
}

bool Stream::CanBeAt(uint64_t lease_id, LeaseTable::WorkerId worker, uint64_t epoch,
                     uint64_t position) const {
  const auto lease = leases_.HeldLease(lease_id, worker);
  return lease.has_value() &&
         LeaseCovers(*lease, config_.binding.samples_per_epoch(), epoch, position);
}

uint32_t Stream::WorkerGone(LeaseTable::WorkerId worker) {
  const uint32_t redone = leases_.WorkerGone(worker);
  if (inputs_ != nullptr) inputs_->OnWorkerGone(worker);
  BeginBatches();  // a lost slot may have come back
  return redone;
}

void Stream::WriteOff(LeaseTable::WorkerId worker) {
  bool held = false;
  leases_.ForEachPending(
      [](const v1::BatchHeader&) {},
      [&](const internal::v1::Lease&, LeaseTable::WorkerId holder) { held |= holder == worker; });
  // Its pages are charged to the process that touches them first, which should be this one.
  if (held) config_.arena->Prefault(config_.arena->usual_slots());
  const bool goes_on = leases_.WriteOff(worker);
  // Slots that others hold may never come back: they take their next batches from this stream.
  if (finished_ || (goes_on && !(held && config_.for_others))) return;
  Fail(MakeError(absl::StatusCode::kUnavailable, reason::kWorkerStuck,
                 "a worker was killed but does not exit, so memory that it may still write to "
                 "cannot be reused; its storage may hang"));
}

bool Stream::Quarantine(const std::string& record, const std::string& reason, uint32_t deaths) {
  if (finished_ || quarantined_.Contains(record)) return false;
  const v1::ErrorAction action = config_.binding.error_action();
  if (action != v1::ERROR_ACTION_SUBSTITUTE && action != v1::ERROR_ACTION_BLANK) {
    Fail(PoisonSample(record, reason, deaths));
    return false;
  }
  const absl::StatusOr<bool> added = quarantined_.Add(record);
  if (!added.ok()) Fail(added.status());
  if (!added.ok() || !*added) return false;
  quarantine_digest_ = quarantined_.Digest();
  // All batches from here on use the new set.
  leases_.RedoAll();
  v1::QuarantinedRecord entry;
  entry.set_record(record);
  entry.mutable_time()->set_seconds(absl::ToUnixSeconds(absl::Now()));
  entry.set_reason(reason);
  entry.set_deaths(deaths);
  if (config_.on_quarantined) config_.on_quarantined(entry);
  v1::SampleEvent event;
  event.set_kind(v1::SampleEvent::KIND_QUARANTINED);
  event.set_record(record);
  event.set_message(absl::StrCat(record, " ended ", deaths,
                                 " fresh workers that did nothing else; the last one: ", reason));
  config_.observer->OnEvent(event);
  return true;
}

void Stream::NoteCode(const std::string& name, const std::string& digest) {
  const auto [known, is_new] = code_.emplace(name, digest);
  if (is_new) {
    v1::CodeFile& file = untold_code_.emplace_back();
    file.set_name(name);
    file.set_digest(digest);
    file.set_later(true);
  } else if (known->second != digest) {
    Fail(CodeChanged(name, known->second, digest));
  }
}

absl::Duration Stream::WithoutBatch(int64_t now_ns) const {
  const bool fetches = inputs_ != nullptr && !inputs_->empty() && leases_.has_free_slot();
  if (finished_ || (leases_.pending() == 0 && !fetches)) return absl::ZeroDuration();
  return absl::Nanoseconds(now_ns - waits_since_ns_);
}

internal::v1::SetQuarantine Stream::quarantine() const {
  internal::v1::SetQuarantine message;
  message.set_stream_id(id_);
  for (const std::string& record : quarantined_.records()) message.add_quarantined(record);
  return message;
}

void Stream::Fail(const absl::Status& status, bool evict) {
  if (finished_ && !evict) return;
  notes_.SendDue(MonotonicNanos(), /*at_end=*/true);
  finished_ = true;
  config_.observer->OnFailed(status);
}

absl::Duration Stream::idle_for(int64_t now_ns) const {
  if (leases_.pending() > 0 || leases_.out_slots() == 0) return absl::ZeroDuration();
  return absl::Nanoseconds(now_ns - quiet_since_ns_);
}

uint64_t StreamConfig::evictable_bytes() const {
  if (memory == nullptr || for_others) return 0;
  const bool shared = about.transport() == v1::TRANSPORT_SHM;
  return (arena->slot_count() - (shared ? 1 : 0)) * arena->slot_bytes();
}

void Stream::DeliverFinished() {
  while (!finished_) {
    std::optional<LeaseTable::FinishedBatch> batch = leases_.TakeNext();
    if (!batch.has_value()) break;
    if (inputs_ != nullptr) inputs_->OnDelivered(batch->header.sequence());
    if (trace_.on()) trace_.Note(v1::TraceMoment::KIND_BATCH_READY, batch->header.sequence());
    auto hold = HoldSlot(batch->slot, batch->header.sequence());
    if (batch->failure.has_value()) {
      Fail(Annotate(StatusFromWorkerError(batch->failure->error()), "",
                    {{"epoch", absl::StrCat(batch->header.epoch())},
                     {"position", absl::StrCat(batch->failure->position())}}));
      return;
    }
    if (!config_.ordered) batch->header.set_batches_left_in_epoch(LeftInEpoch(*batch, ahead_));
    if (absl::Status counted = CountSubstitutions(config_, *batch, counts_, notes_);
        !counted.ok()) {
      Fail(counted);
      return;
    }
    if (config_.assignments == nullptr) {
      ahead_.insert(batch->header.sequence());
      const auto ahead = inputs_ == nullptr ? std::nullopt : inputs_->first();
      const uint64_t in_turn = leases_.head_sequence().value_or(ahead.value_or(next_sequence_));
      ahead_.erase(ahead_.begin(), ahead_.lower_bound(in_turn));
    }
    waits_since_ns_ = MonotonicNanos();
    ++delivered_;
    samples_delivered_ += batch->header.valid_count();
    batch->header.set_quarantine_digest(quarantine_digest_);
    *batch->header.mutable_code() = {untold_code_.begin(), untold_code_.end()};
    untold_code_.clear();
    config_.observer->OnBatch(
        {std::move(batch->header), std::move(hold), std::move(batch->substitutions)});
  }
  if (inputs_ != nullptr) inputs_->SetIdle(leases_.pending() == 0 && leases_.has_free_slot());
  const bool none_ahead = inputs_ == nullptr || inputs_->empty();
  if (!finished_ && exhausted_ && none_ahead && leases_.pending() == 0) {
    notes_.SendDue(MonotonicNanos(), /*at_end=*/true);
    finished_ = true;
    config_.observer->OnEnd();
  }
}

std::shared_ptr<const SlotHold> Stream::HoldSlot(uint32_t slot, uint64_t sequence) {
  quiet_since_ns_ = MonotonicNanos();
  const std::shared_ptr<ArenaMemory> memory = config_.memory;  // may be null
  if (memory != nullptr) memory->Hold(slot);
  auto release = [loop = loop_, weak = weak_from_this(), memory, slot, sequence](bool left) {
    if (memory != nullptr) memory->Release(slot, left);
    loop->Post([weak, slot, sequence] {
      const std::shared_ptr<Stream> stream = weak.lock();
      if (stream == nullptr) return;
      // Without shared memory the slot is free when the batch was sent, and the client has a copy.
      const bool returns = stream->config_.about.transport() == v1::TRANSPORT_SHM;
      if (returns && stream->trace_.on()) {
        stream->trace_.Note(v1::TraceMoment::KIND_BATCH_RETURNED, sequence);
      }
      ++stream->released_;
      stream->quiet_since_ns_ = MonotonicNanos();
      stream->leases_.FreeSlot(slot);
      stream->BeginBatches();
      stream->wake_();
    });
  };
  return std::make_shared<const SlotHold>(config_.arena, slot, std::move(release));
}

void Stream::AppendTotals(v1::GetStatusResponse& response) const {
  if (config_.for_others) return;  // those who share its batches count them
  response.set_samples_substituted(response.samples_substituted() + counts_.total);
  response.set_samples_delivered(response.samples_delivered() + samples_delivered_);
}

v1::StreamStatus Stream::Status() const {
  v1::StreamStatus status = config_.about;
  status.set_batches_sent(delivered_);
  status.set_batches_released(released_);
  status.set_epoch(counts_.epoch);
  if (config_.meter != nullptr) config_.meter->Describe(MonotonicNanos(), status);
  status.mutable_opened()->set_seconds(absl::ToUnixSeconds(opened_));
  v1::ArenaStatus& arena = *status.mutable_arena();
  const uint32_t ready = leases_.finished();
  arena.set_bytes(config_.arena->bytes());
  arena.set_slots(config_.arena->slot_count());
  arena.set_slots_free(leases_.free_slots());
  arena.set_slots_ready(ready);
  arena.set_slots_filling(static_cast<uint32_t>(leases_.pending()) - ready);
  arena.set_slots_sending(leases_.out_slots());
  return status;
}

}  // namespace bulkhead
