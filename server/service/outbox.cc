#include "server/service/outbox.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/arena/note.h"
#include "server/base/error.h"
#include "server/os/event_loop.h"
#include "server/service/batch_frames.h"
#include "server/service/raw_messages.h"

namespace bulkhead {
namespace {

constexpr uint32_t kDefaultCreditBatches = 4;
constexpr uint64_t kDefaultCreditBytes = uint64_t{256} << 20;

}  // namespace

void Outbox::SetCredits(v1::Credits credits) {
  if (credits.batches() == 0) credits.set_batches(kDefaultCreditBatches);
  credits.set_batches(std::min(credits.batches(), kMostCreditBatches));
  if (credits.bytes() == 0) credits.set_bytes(kDefaultCreditBytes);
  absl::MutexLock lock(&mutex_);
  credits_ = std::move(credits);
}

void Outbox::SetOpened(const v1::StreamResponse& opened, Transport transport) {
  absl::MutexLock lock(&mutex_);
  opened_ = Serialize(opened);
  transport_ = std::move(transport);
}

void Outbox::Open() {
  absl::MutexLock lock(&mutex_);
  queue_.push_back(std::move(opened_));
  open_ = true;
  WriteNext();
  NoteWaits(/*released=*/false);
}

void Outbox::Put(Outgoing outgoing) {
  absl::MutexLock lock(&mutex_);
  if (std::holds_alternative<ReadyBatch>(outgoing)) heartbeat_.clear_activity();
  queue_.push_back(std::move(outgoing));
  WriteNext();
  NoteWaits(/*released=*/false);
}

void Outbox::Put(const v1::StreamResponse& response) { Put(Serialize(response)); }

void Outbox::SetActivity(const std::string& activity) {
  absl::MutexLock lock(&mutex_);
  heartbeat_.set_activity(activity);
}

void Outbox::SetIdle(bool idle) {
  absl::MutexLock lock(&mutex_);
  heartbeat_.set_idle(idle);
}

void Outbox::PutNote(const v1::Note& note) {
  absl::MutexLock lock(&mutex_);
  if (notes_.size() < kMostNotes) {
    notes_.push_back(note);
  } else {
    ++notes_left_out_;
  }
  WriteNext();
}

bool Outbox::Beat(absl::Duration silent) {
  absl::MutexLock lock(&mutex_);
  if (finish_called_) return false;
  heartbeat_.clear_supervisor_silent();
  if (silent > absl::ZeroDuration()) {
    heartbeat_.mutable_supervisor_silent()->set_seconds(absl::ToInt64Seconds(silent));
  }
  const bool due = !wrote_since_beat_ && !write_active_;
  wrote_since_beat_ = false;
  WriteNext(/*beat=*/due);
  return true;
}

void Outbox::Release(uint64_t through_sequence) {
  absl::MutexLock lock(&mutex_);
  const auto through =
      std::ranges::find(unreleased_, through_sequence, [](const auto& sent) { return sent.first; });
  if (through == unreleased_.end()) return;  // released before, or never sent
  for (auto sent = unreleased_.begin(); sent != through + 1; ++sent) {
    unreleased_bytes_ -= sent->second;
    meter_->NoteReturned(sent->first);
  }
  unreleased_.erase(unreleased_.begin(), through + 1);
  WriteNext();
  NoteWaits(/*released=*/true);
}

void Outbox::ReleaseSlots(uint32_t slots) {
  absl::MutexLock lock(&mutex_);
  // Only their number counts here; the door knows which slots came back.
  for (; slots > 0 && !unreleased_.empty(); --slots) unreleased_.pop_front();
  WriteNext();
  NoteWaits(/*released=*/true);
}

std::shared_ptr<Assignments> Outbox::ExpectAssignments() {
  absl::MutexLock lock(&mutex_);
  assignments_ = std::make_shared<Assignments>();
  return assignments_;
}

absl::Status Outbox::Assign(const v1::Assign& assign) {
  absl::MutexLock lock(&mutex_);
  if (assignments_ == nullptr || !open_) {
    return ProtocolViolation("Assign needs Open.assigned, and comes after the answer to Open");
  }
  if (!assignments_->Add(assign)) {
    return ProtocolViolation(
        absl::StrCat("more than ", Assignments::kMostWaiting, " batches wait to be begun"));
  }
  NoteWaits(/*released=*/false);
  return absl::OkStatus();
}

void Outbox::OnWritten(bool ok) {
  absl::MutexLock lock(&mutex_);
  write_active_ = false;
  writing_.Clear();  // drops its hold on the slot's memory
  if (!ok) {
    gone_ = true;
    if (!final_status_.has_value()) final_status_ = absl::CancelledError("the client is gone");
  }
  WriteNext();
  NoteWaits(/*released=*/false);
}

void Outbox::Finish(const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  if (!final_status_.has_value()) final_status_ = status;
  WriteNext();
}

void Outbox::Abandon(const absl::Status& status) {
  gone_ = true;
  Finish(status);
}

void Outbox::Evict(const absl::Status& status) {
  gone_ = true;
  absl::MutexLock lock(&mutex_);
  final_status_ = status;
  WriteNext();
}

void Outbox::NoteWaits(bool released) {
  const uint64_t most = transport_.client == nullptr
                            ? credits_.batches()
                            : std::min(credits_.batches(), transport_.slots);
  if (!open_) return;  // what it gets until then is no batch
  const int64_t now_ns = MonotonicNanos();
  const bool asks_nothing = assignments_ != nullptr && assignments_->empty();
  const bool has_all = !queue_.empty() || unreleased_.size() >= most || asks_nothing;
  meter_->Waits(has_all ? StreamMeter::Waiting::kForTrainer : StreamMeter::Waiting::kForWorkers,
                now_ns);
  if (!has_all) {
    *unread_since_ = 0;
  } else if (released || *unread_since_ == 0) {
    *unread_since_ = now_ns;
  }
}

bool Outbox::HasCredit(const ReadyBatch& batch) const {
  if (unreleased_.empty()) return true;
  if (unreleased_.size() >= credits_.batches()) return false;
  // The bytes of a shared arena are the service's, however many slots the client holds.
  return transport_.client != nullptr ||
         unreleased_bytes_ + PayloadBytes(transport_.schema, batch.header.sample_count()) <=
             credits_.bytes();
}

void Outbox::WriteNext(bool beat) {
  if (finish_called_) return;
  if (gone_) {
    queue_.clear();
    notes_.clear();
    frames_.clear();
  }
  while (transport_.at_door && AnnounceNext()) wrote_since_beat_ = true;
  if (write_active_) return;
  if (frames_.empty()) FrameNote();
  if (frames_.empty()) FrameNext();
  if (gone_) queue_.clear();
  // A heartbeat takes the place of a batch without credit.
  if (frames_.empty() && beat && !gone_) {
    v1::StreamResponse response;
    *response.mutable_heartbeat() = heartbeat_;
    frames_.push_back(Serialize(response));
  }
  if (!frames_.empty()) {
    writing_ = std::move(frames_.front());
    frames_.pop_front();
    write_active_ = true;
    wrote_since_beat_ = true;
    wire_.write(&writing_);
  } else if (final_status_.has_value() && queue_.empty()) {
    finish_called_ = true;
    wire_.finish(*final_status_);
  }
}

void Outbox::NoteSent(const v1::BatchHeader& header) {
  meter_->CountBatch(header, MonotonicNanos());
  if (assignments_ != nullptr) assignments_->NoteSent(header.sequence());
}

void Outbox::FrameNote() {
  // Progress and the answer to Open go first.
  const bool waits = !queue_.empty() && std::holds_alternative<grpc::ByteBuffer>(queue_.front());
  if (!open_ || waits || notes_.empty()) return;
  v1::StreamResponse response;
  *response.mutable_note() = std::move(notes_.front());
  notes_.pop_front();
  frames_.push_back(Serialize(response));
  if (!notes_.empty() || notes_left_out_ == 0) return;
  v1::Note& last = notes_.emplace_back();
  last.set_level(v1::Note::LEVEL_WARNING);
  last.set_text(DroppedText(std::exchange(notes_left_out_, 0)));
}

void Outbox::FrameNext() {
  if (queue_.empty()) return;
  Outgoing& next = queue_.front();
  if (auto* message = std::get_if<grpc::ByteBuffer>(&next)) {
    frames_.push_back(std::move(*message));
  } else if (auto* event = std::get_if<v1::SampleEvent>(&next)) {
    v1::StreamResponse response;
    *response.mutable_event() = std::move(*event);
    frames_.push_back(Serialize(response));
  } else {
    auto& batch = std::get<ReadyBatch>(next);
    if (!HasCredit(batch)) return;
    NoteSent(batch.header);
    if (transport_.client == nullptr) {
      const uint64_t bytes = PayloadBytes(transport_.schema, batch.header.sample_count());
      unreleased_.emplace_back(batch.header.sequence(), bytes);
      unreleased_bytes_ += bytes;
      frames_ = FrameBatch(transport_.schema, std::move(batch));
    } else if (auto slot = HandOut(std::move(batch))) {
      v1::StreamResponse response;
      *response.mutable_slot() = *std::move(slot);
      frames_.push_back(Serialize(response));
    }
  }
  queue_.pop_front();
}

bool Outbox::AnnounceNext() {
  if (queue_.empty()) return false;
  Outgoing& next = queue_.front();
  v1::ArenaServerMessage packet;
  v1::StreamResponse response;  // the same over gRPC, if the door does not take it
  if (auto* event = std::get_if<v1::SampleEvent>(&next)) {
    packet.mutable_event()->set_arena_id(transport_.arena_id);
    *packet.mutable_event()->mutable_event() = *event;
    *response.mutable_event() = std::move(*event);
  } else if (auto* batch = std::get_if<ReadyBatch>(&next); batch != nullptr && HasCredit(*batch)) {
    NoteSent(batch->header);
    auto slot = HandOut(std::move(*batch));
    if (!slot.has_value()) {
      queue_.clear();
      return false;
    }
    *packet.mutable_slot() = *slot;
    *response.mutable_slot() = *std::move(slot);
  } else {
    return false;
  }
  queue_.pop_front();
  const bool fits = packet.ByteSizeLong() <= ArenaClient::kLargestPacket;
  if (fits && transport_.client->Announce(packet)) return true;
  transport_.at_door = false;  // the text is long, the door's buffer is full, or the client is gone
  frames_.push_back(Serialize(response));
  return false;
}

std::optional<v1::SlotBatch> Outbox::HandOut(ReadyBatch batch) {
  v1::SlotBatch slot;
  *slot.mutable_header() = batch.header;
  slot.mutable_header()->set_payload_bytes(
      PayloadBytes(transport_.schema, batch.header.sample_count()));
  slot.set_arena_id(transport_.arena_id);
  slot.set_slot(batch.hold->slot());
  if (transport_.client->HandOut(transport_.arena_id, slot.slot(), std::move(batch.hold))) {
    unreleased_.emplace_back(slot.header().sequence(), 0);
    return slot;
  }
  // This stream's client cannot read that arena.
  final_status_ = MakeError(absl::StatusCode::kUnavailable, reason::kTransportUnavailable,
                            "the client hung up at the arena door");
  gone_ = true;
  return std::nullopt;
}

}  // namespace bulkhead
