#include "server/service/stream_session.h"

#include <grpcpp/impl/codegen/proto_utils.h>

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/service/batch_frames.h"
#include "server/service/rpc_error.h"
#include "server/service/stream_config.h"

namespace bulkhead {
namespace {

constexpr uint32_t kDefaultCreditBatches = 4;
constexpr uint64_t kDefaultCreditBytes = uint64_t{256} << 20;

absl::Status ProtocolViolation(absl::string_view what) {
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kProtocolViolation, what);
}

grpc::ByteBuffer Serialize(const v1::StreamResponse& response) {
  grpc::ByteBuffer buffer;
  bool own_buffer = false;
  grpc::SerializationTraits<v1::StreamResponse>::Serialize(response, &buffer, &own_buffer);
  return buffer;
}

}  // namespace

StreamSession* StreamSession::Start(const SessionContext& context, std::string peer) {
  std::shared_ptr<StreamSession> session(new StreamSession(context, std::move(peer)));
  session->self_ = session;
  session->StartRead(&session->incoming_);
  return session.get();
}

StreamSession::StreamSession(const SessionContext& context, std::string peer)
    : context_(context), peer_(std::move(peer)) {}

StreamSession::~StreamSession() { context_.sessions->Remove(); }

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
  std::thread([self = self_, open] { self->Prepare(open); }).detach();
}

void StreamSession::HandleRelease(const v1::Release& release) {
  absl::MutexLock lock(&mutex_);
  while (!unreleased_.empty() && unreleased_.front().first <= release.through_sequence()) {
    unreleased_bytes_ -= unreleased_.front().second;
    unreleased_.pop_front();
  }
  WriteNext();
}

void StreamSession::Prepare(v1::Open open) {
  if (absl::Status claimed = ClaimStream(open); !claimed.ok()) {
    FinishWith(claimed);
    return;
  }
  const Preparer& preparer = *context_.preparer;
  absl::StatusOr<PreparedPipeline> prepared = preparer.Understand(open.spec());
  absl::Status status = prepared.status();
  if (status.ok()) {
    status = preparer.FindData(
        open.spec().base_dir(), *prepared,
        [this](const v1::Progress& progress) {
          v1::StreamResponse response;
          *response.mutable_progress() = progress;
          Enqueue(response);
        },
        [this] { return gone_.load(); });
  }
  if (status.ok()) status = OpenStream(open, *std::move(prepared));
  if (!status.ok()) FinishWith(status);
}

absl::Status StreamSession::ClaimStream(const v1::Open& open) {
  uint64_t claim_id = 0;
  BULKHEAD_RETURN_IF_ERROR(context_.directory->Claim(
      open.name(), open.rank(), open.incarnation(),
      [weak = weak_from_this()](const absl::Status& status) {
        if (const auto session = weak.lock()) session->Evict(status);
      },
      claim_id));
  absl::MutexLock lock(&mutex_);
  name_ = open.name();
  rank_ = open.rank();
  claim_id_ = claim_id;
  if (finish_called_) context_.directory->Release(name_, rank_, claim_id_);
  return absl::OkStatus();
}

absl::Status StreamSession::OpenStream(const v1::Open& open, PreparedPipeline prepared) {
  BULKHEAD_ASSIGN_OR_RETURN(const BatchPlan plan, PlanBatches(open, prepared));
  StreamConfig config = MakeStreamConfig(open, prepared, plan);
  absl::StatusOr<std::shared_ptr<Arena>> arena =
      Arena::Create(prepared.memory.slot_bytes(), prepared.memory.slot_count());
  if (!arena.ok()) return arena.status();
  config.arena = *arena;
  config.observer = shared_from_this();
  config.peer = peer_;

  v1::StreamResponse response;
  *response.mutable_opened() = MakeOpened(open, prepared, plan, context_.boot_id);
  {
    absl::MutexLock lock(&mutex_);
    schema_ = prepared.signature.schema;
  }
  Enqueue(response);
  // The arena's pages are charged to whoever touches them first: that shall be the supervisor. The
  // first slot before the first lease, the others while it is worked on.
  (*arena)->Prefault(0);
  const uint64_t id =
      context_.supervisor->OpenStream(MakePipelineConfig(prepared), std::move(config));
  {
    absl::MutexLock lock(&mutex_);
    stream_id_ = id;
    if (finish_called_) context_.supervisor->CloseStream(id);
  }
  for (uint32_t slot = 1; slot < (*arena)->slot_count() && !gone_; ++slot) (*arena)->Prefault(slot);
  return absl::OkStatus();
}

void StreamSession::OnBatch(ReadyBatch batch) { Enqueue(std::move(batch)); }

void StreamSession::OnEvent(const v1::SampleEvent& event) {
  v1::StreamResponse response;
  *response.mutable_event() = event;
  Enqueue(response);
}

void StreamSession::OnEnd() { FinishWith(absl::OkStatus()); }

void StreamSession::OnFailed(const absl::Status& status) {
  const auto info = GetErrorInfo(status);
  if (info.has_value() && info->reason == reason::kShuttingDown) {
    // What is queued may wait for credits that never come; the client gets it from the next service
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

void StreamSession::Evict(const absl::Status& status) {
  gone_ = true;
  FinishWith(status);
}

void StreamSession::FinishWith(const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  if (!final_status_.has_value()) final_status_ = status;
  WriteNext();
}

bool StreamSession::HasCredit(const ReadyBatch& batch) const {
  if (unreleased_.empty()) return true;
  return unreleased_.size() < credits_.batches() &&
         unreleased_bytes_ + PayloadBytes(schema_, batch.header.sample_count()) <= credits_.bytes();
}

void StreamSession::WriteNext() {
  if (write_active_ || finish_called_) return;
  if (gone_) {
    queue_.clear();
    frames_.clear();
  }
  if (frames_.empty() && !queue_.empty()) {
    if (auto* batch = std::get_if<ReadyBatch>(&queue_.front())) {
      if (!HasCredit(*batch)) return;
      const uint64_t bytes = PayloadBytes(schema_, batch->header.sample_count());
      unreleased_.emplace_back(batch->header.sequence(), bytes);
      unreleased_bytes_ += bytes;
      frames_ = FrameBatch(schema_, std::move(*batch));
    } else {
      frames_.push_back(std::move(std::get<grpc::ByteBuffer>(queue_.front())));
    }
    queue_.pop_front();
  }
  if (!frames_.empty()) {
    writing_ = std::move(frames_.front());
    frames_.pop_front();
    write_active_ = true;
    StartWrite(&writing_);
  } else if (final_status_.has_value()) {
    finish_called_ = true;
    Finish(ToRpcStatus(*final_status_));
  }
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
    if (stream_id_ != 0) context_.supervisor->CloseStream(stream_id_);
    context_.directory->Release(name_, rank_, claim_id_);
  }
  self_.reset();  // may delete this
}

}  // namespace bulkhead
