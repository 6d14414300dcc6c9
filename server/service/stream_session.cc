#include "server/service/stream_session.h"

#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/server_context.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/base/error.h"
#include "server/os/monotonic_wait.h"
#include "server/os/thread.h"
#include "server/service/batch_frames.h"
#include "server/service/rpc_error.h"
#include "server/service/stream_config.h"
#include "server/spec/source_chain.h"

namespace bulkhead {
namespace {

constexpr uint32_t kDefaultCreditBatches = 4;
constexpr uint64_t kDefaultCreditBytes = uint64_t{256} << 20;
constexpr absl::Duration kHeartbeat = absl::Seconds(1);
constexpr absl::Duration kAdmissionPatience = absl::Seconds(3);
constexpr absl::Duration kAdmissionPause = absl::Milliseconds(50);
constexpr absl::Duration kCodePause = absl::Milliseconds(50);
// For what others have added to the quarantine; without it the stream knows what this service does.
constexpr absl::Duration kRefreshPatience = absl::Seconds(1);
// One is kept for redoing the head; and who holds a batch needs another one for the next.
constexpr uint32_t kFewestSlots = 3;
// What a client that is ended gets to take in why.
constexpr absl::Duration kLastWords = absl::Seconds(1);

absl::Status ProtocolViolation(absl::string_view what) {
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kProtocolViolation, what);
}

// In shared memory the batches that the client holds stay in their slots, so it gets as many as it
// wants to hold; over gRPC they leave them.
uint32_t Slots(const v1::Open& open) {
  if (open.transport() == v1::TRANSPORT_GRPC || open.arena_token().empty()) {
    return Preparer::kDefaultSlots;
  }
  return std::clamp(open.credits().batches(), Preparer::kDefaultSlots, Preparer::kMaxSlots);
}

grpc::ByteBuffer Serialize(const v1::StreamResponse& response) {
  grpc::ByteBuffer buffer;
  bool own_buffer = false;
  grpc::SerializationTraits<v1::StreamResponse>::Serialize(response, &buffer, &own_buffer);
  return buffer;
}

void Remember(const std::shared_ptr<QuarantineStore>& store, const std::shared_ptr<IoThread>& io,
              const v1::QuarantinedRecord& record, const std::string& bytes_fingerprint) {
  if (absl::Status added = store->Add(record, bytes_fingerprint); !added.ok()) {
    spdlog::warn("a quarantined record will not be remembered: {}", std::string(added.message()));
    return;
  }
  // Not on this thread, which is the supervisor's: the disk may hang.
  QuarantineStore::SaveSoon(store, *io);
}

}  // namespace

StreamSession* StreamSession::Start(const SessionContext& context, grpc::CallbackServerContext* rpc,
                                    std::string peer) {
  std::shared_ptr<StreamSession> session(new StreamSession(context, rpc, std::move(peer)));
  session->self_ = session;
  session->StartRead(&session->incoming_);
  return session.get();
}

StreamSession::StreamSession(const SessionContext& context, grpc::CallbackServerContext* rpc,
                             std::string peer)
    : context_(context), rpc_(rpc), peer_(std::move(peer)) {}

void StreamSession::OnReadDone(bool ok) {
  if (!ok) {  // the client closed its side, or is gone: nobody will release anything
    gone_ = true;
    FinishWith(opened_ ? absl::OkStatus() : ProtocolViolation("the stream ended before Open"));
    return;
  }
  v1::StreamRequest request;
  const grpc::Status parsed =
      grpc::SerializationTraits<v1::StreamRequest>::Deserialize(&incoming_, &request);
  incoming_.Clear();
  if (!parsed.ok()) {
    FinishWith(ProtocolViolation("a message could not be parsed"));
  } else if (request.has_open() != opened_ && (request.has_open() || request.has_release())) {
    if (request.has_open()) {
      HandleOpen(request.open());
    } else {
      HandleRelease(request.release());
    }
  } else {
    FinishWith(ProtocolViolation("the first message must be Open, every later one Release"));
  }
  StartRead(&incoming_);
}

void StreamSession::HandleOpen(const v1::Open& open) {
  opened_ = true;
  {
    absl::MutexLock lock(&mutex_);
    credits_ = open.credits();
    if (credits_.batches() == 0) credits_.set_batches(kDefaultCreditBatches);
    if (credits_.bytes() == 0) credits_.set_bytes(kDefaultCreditBytes);
  }
  context_.loop->Post([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->Beat();
  });
  context_.sessions->AddThread();
  const absl::Status started =
      StartDetachedThread([self = self_, open, sessions = context_.sessions]() mutable {
        {
          const StorageWatch::Scope watched(self->context_.storage, self->caller_);
          self->Prepare(open);
        }
        self.reset();
        sessions->RemoveThread();
      });
  if (started.ok()) return;
  context_.sessions->RemoveThread();
  FinishWith(started);
}

void StreamSession::Beat() {
  if (const absl::Status stalled = caller_->Stalled(); !stalled.ok()) Evict(stalled);
  {
    absl::MutexLock lock(&mutex_);
    if (finish_called_) return;
    heartbeat_due_ = !wrote_since_beat_ && !write_active_;
    wrote_since_beat_ = false;
    WriteNext();
  }
  context_.loop->After(kHeartbeat, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->Beat();
  });
}

void StreamSession::HandleRelease(const v1::Release& release) {
  absl::MutexLock lock(&mutex_);
  const auto through = std::find_if(unreleased_.begin(), unreleased_.end(), [&](const auto& sent) {
    return sent.first == release.through_sequence();
  });
  if (through == unreleased_.end()) return;  // released before, or never sent
  for (auto sent = unreleased_.begin(); sent != through + 1; ++sent) {
    unreleased_bytes_ -= sent->second;
  }
  unreleased_.erase(unreleased_.begin(), through + 1);
  WriteNext();
}

void StreamSession::Prepare(v1::Open open) {
  std::shared_ptr<Legacy> legacy;
  if (absl::Status claimed = ClaimStream(open, legacy); !claimed.ok()) {
    FinishWith(claimed);
    return;
  }
  const Preparer& preparer = *context_.preparer;
  absl::StatusOr<PreparedPipeline> prepared = preparer.Understand(open.spec(), Slots(open));
  absl::Status status = prepared.status();
  if (status.ok()) {
    status = preparer.FindData(
        open.spec().base_dir(), *prepared,
        [this](const v1::Progress& progress) {
          v1::StreamResponse response;
          *response.mutable_progress() = progress;
          Enqueue(response);
        },
        [this] { return gone_.load() || context_.sessions->draining(); });
  }
  if (status.ok()) status = OpenStream(open, *std::move(prepared), legacy.get());
  if (!status.ok())
    FinishWith(context_.sessions->draining() ? SessionRegistry::Draining() : status);
}

absl::Status StreamSession::ClaimStream(const v1::Open& open, std::shared_ptr<Legacy>& legacy) {
  uint64_t claim_id = 0;
  BULKHEAD_RETURN_IF_ERROR(context_.directory->Claim(
      open.name(), open.rank(), {open.incarnation(), open.machine_boot(), open.since_boot()},
      [weak = weak_from_this()](const absl::Status& status) -> std::shared_ptr<Legacy> {
        const auto session = weak.lock();
        return session != nullptr ? session->Evict(status) : nullptr;
      },
      claim_id, legacy));
  absl::MutexLock lock(&mutex_);
  name_ = open.name();
  rank_ = open.rank();
  claim_id_ = claim_id;
  if (finish_called_) EndClaims();
  return absl::OkStatus();
}

absl::StatusOr<Supervisor::Admission> StreamSession::Admit(PreparedPipeline& prepared,
                                                           Legacy* legacy) {
  const PipelineConfig pipeline = MakePipelineConfig(prepared);
  const int64_t begin_ns = MonotonicNanos();
  v1::MemoryPlan& plan = prepared.memory;
  absl::Status refusal;  // of all slots
  for (uint32_t slots = plan.slot_count(); !gone_;) {
    absl::StatusOr<Supervisor::Admission> admission =
        context_.supervisor->Admit(pipeline, slots, plan.slot_bytes(), legacy);
    if (!absl::IsResourceExhausted(admission.status())) {
      if (admission.ok() && slots < plan.slot_count()) {
        spdlog::info("pipeline {}: {} of a stream's {} slots fit into the memory budget",
                     pipeline.name, slots, plan.slot_count());
      }
      plan.set_slot_count(slots);
      plan.set_arena_bytes(slots * plan.slot_bytes());
      return admission;
    }
    if (slots == plan.slot_count()) refusal = admission.status();
    if (absl::Nanoseconds(MonotonicNanos() - begin_ns) <= kAdmissionPatience) {
      absl::SleepFor(kAdmissionPause);
    } else if (slots-- <= kFewestSlots) {
      return refusal;
    }
  }
  return absl::CancelledError("the client is gone");
}

absl::Status StreamSession::AwaitCode(PreparedPipeline& prepared) {
  struct Answer {
    absl::Mutex mutex;
    std::optional<absl::StatusOr<std::vector<v1::CodeFile>>> code ABSL_GUARDED_BY(mutex);
  };
  const auto answer = std::make_shared<Answer>();
  context_.supervisor->WhenLoaded(MakePipelineConfig(prepared), [answer](const auto& code) {
    absl::MutexLock lock(&answer->mutex);
    answer->code = code;
  });
  {
    absl::MutexLock lock(&answer->mutex);
    const auto told = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return answer->code.has_value(); };
    // A worker that does not come is killed after a while, and the pool fails with it.
    while (!AwaitFor(answer->mutex, told, kCodePause)) {
      if (gone_) return absl::CancelledError("the client is gone");
    }
    BULKHEAD_ASSIGN_OR_RETURN(prepared.code, *std::move(answer->code));
  }
  prepared.bytes_fingerprint = FingerprintWithCode(prepared.bytes_fingerprint, prepared.code);
  return absl::OkStatus();
}

absl::Status StreamSession::OpenStream(const v1::Open& open, PreparedPipeline prepared,
                                       Legacy* legacy) {
  const bool user_code = !UserCodeOf(prepared.spec).empty();
  if (user_code) {
    std::vector<std::string> names = context_.supervisor->CodeOf(MakePipelineConfig(prepared).key);
    for (const v1::CodeFile& file : open.cursor().code()) names.push_back(file.name());
    prepared.code_on_disk = context_.preparer->ReadCode(std::move(names));
  }
  BULKHEAD_ASSIGN_OR_RETURN(const BatchPlan plan, PlanBatches(open, prepared));
  BULKHEAD_ASSIGN_OR_RETURN(const Supervisor::Admission admission, Admit(prepared, legacy));
  if (user_code) BULKHEAD_RETURN_IF_ERROR(AwaitCode(prepared));
  QuarantineStore::RefreshWithin(context_.quarantine, *context_.io, kRefreshPatience);
  BULKHEAD_ASSIGN_OR_RETURN(const QuarantineSet quarantined,
                            QuarantineAtOpen(open, prepared, *context_.quarantine));
  prepared.memory.set_workers(admission.worker_count);
  StreamConfig config = MakeStreamConfig(open, prepared, plan);
  config.quarantined = quarantined;
  config.on_quarantined =
      [store = context_.quarantine, io = context_.io, fingerprint = prepared.bytes_fingerprint](
          const v1::QuarantinedRecord& record) { Remember(store, io, record, fingerprint); };
  absl::StatusOr<std::shared_ptr<Arena>> arena =
      Arena::Create(prepared.memory.slot_bytes(), prepared.memory.slot_count());
  if (!arena.ok()) return arena.status();
  config.arena = *arena;
  config.memory = std::make_shared<ArenaMemory>(*arena, std::move(*admission.arena));
  // This thread writes, too.
  const std::shared_ptr<const void> writer = config.writer = config.memory->MakeWriter();
  config.observer = shared_from_this();
  config.peer = peer_;

  v1::StreamResponse response;
  *response.mutable_opened() = MakeOpened(open, prepared, plan, quarantined, context_.boot_id);
  BULKHEAD_RETURN_IF_ERROR(ChooseTransport(open, **arena, *response.mutable_opened()));
  config.transport = response.opened().transport();
  {
    absl::MutexLock lock(&mutex_);
    schema_ = prepared.signature.schema;
    resolved_ = prepared.resolved;
    opening_ = Serialize(response);
    memory_ = config.memory;
    workers_ = admission.workers;
  }
  // The arena's pages are charged to whoever touches them first: that shall be the supervisor. The
  // first slot before the first lease, the others while it is worked on.
  (*arena)->Prefault(0);
  PipelineConfig pipeline = MakePipelineConfig(prepared);
  if (config.binding.reads_again()) context_.supervisor->AwaitSegments(pipeline);
  const uint64_t id = context_.supervisor->OpenStream(std::move(pipeline), std::move(config));
  {
    absl::MutexLock lock(&mutex_);
    stream_id_ = id;
    if (finish_called_) EndClaims();
  }
  for (uint32_t slot = 1; slot < (*arena)->slot_count() && !gone_; ++slot) (*arena)->Prefault(slot);
  // Workers open and close slots all the time.
  for (uint32_t slot = 0; slot < (*arena)->slot_count() && !gone_; ++slot) {
    (*arena)->UseHugePages(slot);
  }
  return absl::OkStatus();
}

absl::Status StreamSession::ChooseTransport(const v1::Open& open, const Arena& arena,
                                            v1::Opened& opened) {
  opened.set_transport(v1::TRANSPORT_GRPC);
  if (open.transport() == v1::TRANSPORT_GRPC) return absl::OkStatus();
  std::shared_ptr<ArenaClient> client;
  std::string why_not;
  if (open.arena_token().empty()) {
    why_not = "the client did not come through the arena door";
  } else if (context_.door == nullptr) {
    why_not = "this service has no arena door, because it listens on TCP or its log says why";
  } else if (client = context_.door->FindClient(open.arena_token()); client == nullptr) {
    why_not = "the client's connection to the arena door is not one to this service";
  } else {
    const absl::StatusOr<uint64_t> id =
        client->Grant(arena, [weak = weak_from_this()](uint32_t slots) {
          if (const auto self = weak.lock()) self->OnSlotsReleased(slots);
        });
    if (id.ok()) {
      opened.set_transport(v1::TRANSPORT_SHM);
      opened.set_arena_id(*id);
      absl::MutexLock lock(&mutex_);
      arena_client_ = std::move(client);
      arena_id_ = *id;
      at_door_ = open.announce_at_door();
      opened.set_announced_at_door(at_door_);
      if (finish_called_) EndClaims();
      return absl::OkStatus();
    }
    why_not = std::string(id.status().message());
  }
  if (open.transport() == v1::TRANSPORT_SHM) {
    return MakeError(absl::StatusCode::kFailedPrecondition, reason::kTransportUnavailable,
                     absl::StrCat("shared memory was asked for and cannot be had: ", why_not));
  }
  opened.set_transport_reason(why_not);
  return absl::OkStatus();
}

void StreamSession::OnSlotsReleased(uint32_t slots) {
  absl::MutexLock lock(&mutex_);
  // Which of them came back is the door's affair; here they only count.
  for (; slots > 0 && !unreleased_.empty(); --slots) unreleased_.pop_front();
  WriteNext();
}

void StreamSession::OnAdded() {
  // Not before: whoever knows that it is open may ask for the status at once.
  absl::MutexLock lock(&mutex_);
  queue_.push_back(std::move(opening_));
  WriteNext();
}

void StreamSession::OnBatch(ReadyBatch batch) {
  {
    absl::MutexLock lock(&mutex_);
    activity_.clear();
  }
  Enqueue(std::move(batch));
}

void StreamSession::OnActivity(const std::string& activity) {
  absl::MutexLock lock(&mutex_);
  activity_ = activity;
}

void StreamSession::OnEvent(const v1::SampleEvent& event) { Enqueue(event); }

void StreamSession::OnEnd() { FinishWith(absl::OkStatus()); }

void StreamSession::OnFailed(const absl::Status& status) {
  const auto info = GetErrorInfo(status);
  {
    absl::MutexLock lock(&mutex_);
    context_.preparer->NoteDamage(resolved_, status);
  }
  if (info.has_value() &&
      (info->reason == reason::kShuttingDown || info->reason == reason::kStreamIdle)) {
    // What is queued may wait for credits that never come; the client gets it from the next stream
    // instead.
    Evict(status);
  } else {
    FinishWith(status);
  }
}

void StreamSession::Enqueue(const v1::StreamResponse& response) { Enqueue(Serialize(response)); }

void StreamSession::Enqueue(Outgoing outgoing) {
  absl::MutexLock lock(&mutex_);
  queue_.push_back(std::move(outgoing));
  WriteNext();
}

std::shared_ptr<Legacy> StreamSession::Evict(const absl::Status& status) {
  std::shared_ptr<Legacy> legacy;
  gone_ = true;
  {
    absl::MutexLock lock(&mutex_);
    final_status_ = status;
    WriteNext();
    if (memory_ != nullptr) legacy = memory_->Bequeath(workers_);
    EndClaims();
  }
  if (absl::IsCancelled(status)) {
    Cut();  // nobody is there who would read why
    return legacy;
  }
  context_.loop->Post([loop = context_.loop, weak = weak_from_this()] {
    loop->After(kLastWords, [weak] {
      if (const auto self = weak.lock()) self->Cut();
    });
  });
  return legacy;
}

void StreamSession::Cut() {
  absl::MutexLock lock(&mutex_);
  if (!done_) rpc_->TryCancel();
}

void StreamSession::OnIdle(bool idle) {
  absl::MutexLock lock(&mutex_);
  idle_ = idle;
}

void StreamSession::FinishWith(const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  if (!final_status_.has_value()) final_status_ = status;
  WriteNext();
}

bool StreamSession::HasCredit(const ReadyBatch& batch) const {
  if (unreleased_.empty()) return true;
  if (unreleased_.size() >= credits_.batches()) return false;
  // Bytes of a shared arena are the service's, however many of its slots are held.
  return arena_client_ != nullptr ||
         unreleased_bytes_ + PayloadBytes(schema_, batch.header.sample_count()) <= credits_.bytes();
}

void StreamSession::WriteNext() {
  if (finish_called_) return;
  if (gone_) {
    queue_.clear();
    frames_.clear();
  }
  while (at_door_ && AnnounceNext()) wrote_since_beat_ = true;
  if (write_active_) return;
  if (frames_.empty()) FrameNext();
  if (gone_) queue_.clear();
  // What comes instead of a batch without credit.
  if (frames_.empty() && heartbeat_due_ && !gone_) {
    v1::StreamResponse heartbeat;
    heartbeat.mutable_heartbeat()->set_activity(activity_);
    heartbeat.mutable_heartbeat()->set_idle(idle_);
    const absl::Duration silent = context_.supervisor->SilentFor();
    if (silent > absl::ZeroDuration()) {
      heartbeat.mutable_heartbeat()->mutable_supervisor_silent()->set_seconds(
          absl::ToInt64Seconds(silent));
    }
    frames_.push_back(Serialize(heartbeat));
  }
  if (!frames_.empty()) {
    writing_ = std::move(frames_.front());
    frames_.pop_front();
    write_active_ = true;
    wrote_since_beat_ = true;
    heartbeat_due_ = false;
    StartWrite(&writing_);
  } else if (final_status_.has_value() && queue_.empty()) {
    finish_called_ = true;
    Finish(ToRpcStatus(*final_status_));
  }
}

void StreamSession::FrameNext() {
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
    if (arena_client_ == nullptr) {
      const uint64_t bytes = PayloadBytes(schema_, batch.header.sample_count());
      unreleased_.emplace_back(batch.header.sequence(), bytes);
      unreleased_bytes_ += bytes;
      frames_ = FrameBatch(schema_, std::move(batch));
    } else if (auto slot = HandOut(std::move(batch))) {
      v1::StreamResponse response;
      *response.mutable_slot() = *std::move(slot);
      frames_.push_back(Serialize(response));
    }
  }
  queue_.pop_front();
}

bool StreamSession::AnnounceNext() {
  if (queue_.empty()) return false;
  Outgoing& next = queue_.front();
  v1::ArenaServerMessage packet;
  v1::StreamResponse response;  // the same, if the door does not take it
  if (auto* event = std::get_if<v1::SampleEvent>(&next)) {
    packet.mutable_event()->set_arena_id(arena_id_);
    *packet.mutable_event()->mutable_event() = *event;
    *response.mutable_event() = std::move(*event);
  } else if (auto* batch = std::get_if<ReadyBatch>(&next); batch != nullptr && HasCredit(*batch)) {
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
  if (fits && arena_client_->Announce(packet)) return true;
  at_door_ = false;  // a long text, the door's buffer is full, or the client is gone
  frames_.push_back(Serialize(response));
  return false;
}

std::optional<v1::SlotBatch> StreamSession::HandOut(ReadyBatch batch) {
  v1::SlotBatch slot;
  *slot.mutable_header() = batch.header;
  slot.mutable_header()->set_payload_bytes(PayloadBytes(schema_, batch.header.sample_count()));
  slot.set_arena_id(arena_id_);
  slot.set_slot(batch.hold->slot());
  if (arena_client_->HandOut(arena_id_, slot.slot(), std::move(batch.hold))) {
    unreleased_.emplace_back(slot.header().sequence(), 0);
    return slot;
  }
  // Whoever reads this stream cannot read that arena.
  final_status_ = MakeError(absl::StatusCode::kUnavailable, reason::kTransportUnavailable,
                            "the client hung up at the arena door");
  gone_ = true;
  return std::nullopt;
}

void StreamSession::EndClaims() {
  if (stream_id_ != 0) context_.supervisor->CloseStream(stream_id_);
  if (arena_client_ != nullptr) arena_client_->Retire(arena_id_);
  if (claim_id_ != 0) context_.directory->Release(name_, rank_, claim_id_);
  memory_.reset();
  workers_.reset();
}

void StreamSession::OnWriteDone(bool ok) {
  absl::MutexLock lock(&mutex_);
  write_active_ = false;
  writing_.Clear();  // drops our hold on the slot's memory
  if (!ok) {
    gone_ = true;
    if (!final_status_.has_value()) final_status_ = absl::CancelledError("the client is gone");
  }
  WriteNext();
}

void StreamSession::OnCancel() {
  gone_ = true;
  FinishWith(absl::CancelledError("the client is gone"));
}

void StreamSession::OnDone() {
  {
    absl::MutexLock lock(&mutex_);
    EndClaims();
    done_ = true;
  }
  SessionRegistry* const sessions = context_.sessions;
  self_.reset();  // may delete this
  sessions->Remove();
}

}  // namespace bulkhead
