#include "client/cpp/internal/stream/receiver.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cpp/internal/base/error.h"
#include "client/cpp/internal/rpc/public_types.h"

namespace bulkhead::client_internal {

Receiver::Receiver(const StreamConfig& config, Inbox* inbox, std::function<void(uint64_t)> release)
    : config_(config), inbox_(inbox), release_(std::move(release)) {}

absl::Status Receiver::OnMessage(const grpc::ByteBuffer& message) {
  std::vector<grpc::Slice> slices;
  if (!message.Dump(&slices).ok()) return ProtocolError("a message cannot be read");
  BULKHEAD_ASSIGN_OR_RETURN(auto view, ParseStreamResponse(slices));
  return view.is_part ? OnPart(view.part) : OnOther(view.other);
}

absl::Status Receiver::OnPart(const PartView& part) {
  if (!assembler_.has_value()) return ProtocolError("a batch came before Opened");
  if (arena_ != nullptr) return ProtocolError("bytes came where slots were announced");
  if (part.has_header) {
    BULKHEAD_RETURN_IF_ERROR(inbox_->MayBegin());
  }
  BULKHEAD_ASSIGN_OR_RETURN(auto batch, assembler_->Add(part));
  if (part.has_header) {
    inbox_->Begin(assembler_->sequence(), assembler_->payload_bytes());
    BULKHEAD_RETURN_IF_ERROR(inbox_->CheckCredits());
  }
  if (batch != nullptr) Deliver(std::move(batch));
  return absl::OkStatus();
}

absl::Status Receiver::OnSlot(const v1::SlotBatch& slot) {
  if (!assembler_.has_value()) return ProtocolError("a batch came before Opened");
  if (arena_ == nullptr || slot.arena_id() != arena_->id() || slot.slot() >= arena_->slot_count()) {
    return ProtocolError(absl::StrCat("slot ", slot.slot(), " of arena ", slot.arena_id(),
                                      " came, which is not this stream's"));
  }
  if (!config_.door->Hold(arena_->id(), slot.slot())) {
    return ProtocolError(absl::StrCat("slot ", slot.slot(), " came while it was held"));
  }
  BULKHEAD_ASSIGN_OR_RETURN(
      auto batch, assembler_->Adopt(slot.header(),
                                    std::make_unique<HeldSlot>(arena_, config_.door, slot.slot())));
  inbox_->Begin(slot.header().sequence(), slot.header().payload_bytes());
  Deliver(std::move(batch));
  return absl::OkStatus();
}

void Receiver::Deliver(std::unique_ptr<BatchData> batch) {
  if (config_.on_batch) {
    const uint64_t sequence = batch->header.sequence();
    inbox_->SetActivity("");
    config_.on_batch(std::move(batch));
    release_(sequence);  // whoever asks for the batches bounds their number
    return;
  }
  batch->on_release = [release = release_, sequence = batch->header.sequence()] {
    release(sequence);
  };
  batch->header.set_sequence(config_.first_sequence + batch->header.sequence());
  inbox_->Put(std::move(batch), assembler_->window().mark());
}

absl::Status Receiver::OnOther(const std::string& serialized) {
  v1::StreamResponse response;
  if (!response.ParseFromString(serialized)) return ProtocolError("malformed StreamResponse");
  switch (response.response_case()) {
    case v1::StreamResponse::kProgress: {
      LoaderProgress progress = ToLoaderProgress(response.progress());
      response.mutable_progress()->clear_eta();
      inbox_->Tell(std::move(progress), response.progress().SerializeAsString());
      return absl::OkStatus();
    }
    case v1::StreamResponse::kOpened:
      return OnOpened(response.opened());
    case v1::StreamResponse::kSlot:
      return OnSlot(response.slot());
    case v1::StreamResponse::kEvent:
      return OnSampleEvent(response.event());
    case v1::StreamResponse::kNote:
      if (config_.on_note) config_.on_note(ToNoteEvent(response.note()));
      return absl::OkStatus();
    case v1::StreamResponse::kHeartbeat:
      return OnHeartbeat(response.heartbeat());
    default:
      return absl::OkStatus();  // from a newer service, informational
  }
}

absl::Status Receiver::OnHeartbeat(const v1::Heartbeat& heartbeat) {
  inbox_->SetActivity(heartbeat.activity());
  const auto& told = heartbeat.supervisor_silent();
  // Each stream gives the supervisor the whole time: it may have been silent before this one began.
  const absl::Duration silent =
      std::min(absl::Seconds(told.seconds()) + absl::Nanoseconds(told.nanos()), inbox_->age());
  if (silent < config_.silence) return absl::OkStatus();
  return MakeClientError(
      absl::StatusCode::kUnavailable, client_reason::kServiceSilent,
      absl::StrCat("the service at ", config_.target,
                   " says that its supervisor has been silent for ",
                   absl::FormatDuration(absl::Trunc(silent, absl::Milliseconds(1)))),
      {{"target", config_.target}});
}

absl::Status Receiver::OnSampleEvent(const v1::SampleEvent& event) {
  if (event.kind() == v1::SampleEvent::KIND_SUBSTITUTED && config_.on_substitution) {
    config_.on_substitution(SubstitutionEvent{event.epoch(),
                                              event.position(),
                                              event.substitute_position(),
                                              event.message(),
                                              event.reason(),
                                              {event.metadata().begin(), event.metadata().end()}});
  }
  if (event.kind() == v1::SampleEvent::KIND_HUNG && config_.on_hang) {
    config_.on_hang(HangEvent{event.epoch(), event.position(), event.message()});
  }
  if (event.kind() != v1::SampleEvent::KIND_QUARANTINED) return absl::OkStatus();
  if (batch_context_ == nullptr) return ProtocolError("a record was quarantined before Opened");
  BULKHEAD_RETURN_IF_ERROR(AddQuarantined(event.record(), &batch_context_->cursor));
  batch_context_->quarantine_digest = QuarantineDigest(batch_context_->cursor);
  if (config_.on_quarantine) {
    config_.on_quarantine(QuarantineEvent{event.record(), event.message()});
  }
  // Whatever comes next comes without the record, also from another service.
  inbox_->SetQuarantined(batch_context_->cursor);
  if (config_.on_left_out) config_.on_left_out(event.record());
  return absl::OkStatus();
}

absl::Status Receiver::OnOpened(const v1::Opened& opened) {
  if (batch_context_ != nullptr) return ProtocolError("the stream was opened twice");
  if (config_.open.assigned() && !opened.assigned()) {
    return ProtocolError(
        "it is of a version that cannot share a stream with other replicas; update it");
  }
  BULKHEAD_ASSIGN_OR_RETURN(auto layout, MakeLayout(opened.schema()));
  opened_ = opened;
  BULKHEAD_RETURN_IF_ERROR(TakeArena(opened, layout));
  Describe(opened, layout);
  batch_context_ = std::make_shared<BatchContext>(std::move(layout), opened.cursor(),
                                                  config_.open.credits().batches());
  assembler_.emplace(batch_context_, opened.unordered(), config_.open.world_size(),
                     opened.assigned());
  inbox_->Open(LimitsOf(opened), opened.cursor());
  return absl::OkStatus();
}

void Receiver::Describe(const v1::Opened& opened, const BatchLayout& layout) {
  info_.tensors = layout.tensors;
  info_.batch_size = layout.batch_size;
  info_.batch_bytes = layout.batch_bytes;
  info_.samples_per_epoch = opened.samples_per_epoch();
  info_.batches_per_epoch = opened.batches_per_epoch();
  info_.batches_left_in_epoch = opened.batches_left_in_epoch();
  if (opened.has_epochs()) info_.epochs = opened.epochs();
  info_.memory = ToStreamMemory(opened.memory());
  info_.boot_id = opened.boot_id();
  info_.transport = opened.transport() == v1::TRANSPORT_SHM ? Transport::kShm : Transport::kGrpc;
  if (info_.transport != Transport::kShm) {
    info_.transport_reason =
        config_.no_door_reason.empty() ? opened.transport_reason() : config_.no_door_reason;
  }
  info_.cursor = CursorToJson(opened.cursor());
}

Inbox::Limits Receiver::LimitsOf(const v1::Opened& opened) const {
  const v1::Credits& credits = config_.open.credits();
  Inbox::Limits limits{credits.batches(), credits.bytes(), info_.batch_bytes, has_arena()};
  if (limits.slots) {
    // The service needs one to fill.
    const uint64_t slots = std::max<uint64_t>(opened.memory().slot_count(), 2) - 1;
    limits.batches = std::min(limits.batches, slots);
  }
  return limits;
}

absl::Status Receiver::TakeArena(const v1::Opened& opened, const BatchLayout& layout) {
  if (opened.transport() != v1::TRANSPORT_SHM) {
    if (config_.open.transport() != v1::TRANSPORT_SHM) return absl::OkStatus();
    return MakeClientError(
        absl::StatusCode::kFailedPrecondition, client_reason::kTransportUnavailable,
        absl::StrCat("the service gives no shared memory: ", opened.transport_reason().empty()
                                                                 ? "it does not say why"
                                                                 : opened.transport_reason()));
  }
  if (config_.door == nullptr || opened.arena_id() == 0) {
    return ProtocolError("it chose shared memory without an arena");
  }
  BULKHEAD_ASSIGN_OR_RETURN(auto arena, config_.door->TakeArena(opened.arena_id()));
  if (layout.batch_bytes > arena->slot_bytes()) {
    return ProtocolError(absl::StrCat("slots of ", arena->slot_bytes(),
                                      " bytes do not hold batches of ", layout.batch_bytes));
  }
  arena_ = std::move(arena);
  return absl::OkStatus();
}

absl::Status Receiver::OnEnd() const {
  if (batch_context_ == nullptr) return ProtocolError("the stream ended before it was opened");
  if (assembler_->in_batch()) {
    return ProtocolError("the stream ended in the middle of a batch");
  }
  v1::Cursor mark;
  assembler_->window().Describe(&mark);
  // A fleet knows what is missing, and ends its streams itself.
  const bool may_end = opened_.has_epochs() && !opened_.assigned();
  // The cursor may stand in the last epoch, where no whole batch is left.
  const bool nothing_left = assembler_->window().mark() == 0 &&
                            opened_.batches_left_in_epoch() == 0 &&
                            opened_.cursor().epoch() + 1 >= opened_.epochs();
  if (may_end && (nothing_left || mark.epoch() >= opened_.epochs())) return absl::OkStatus();
  return MakeClientError(
      absl::StatusCode::kUnavailable, client_reason::kServiceUnavailable,
      absl::StrCat("the service at ", config_.target, " ended the stream before its last batch"),
      {{"target", config_.target}});
}

void Receiver::RetireArena() {
  if (config_.door != nullptr && opened_.arena_id() != 0) config_.door->Retire(opened_.arena_id());
  arena_ = nullptr;
}

}  // namespace bulkhead::client_internal
