#include "server/service/stream_session.h"

#include <grpcpp/server_context.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/service/calls/call_after.h"
#include "server/service/calls/request_call.h"
#include "server/service/raw_messages.h"
#include "server/service/rpc_error.h"

namespace bulkhead {
namespace {

// Time limit for Open, which clients send at once.
constexpr absl::Duration kOpenPatience = RequestCall::kPatience;
constexpr absl::Duration kHeartbeat = absl::Seconds(1);
// Time for an evicted client to read the status.
constexpr absl::Duration kLastWords = absl::Seconds(1);

constexpr absl::string_view kOrderOfMessages =
    "the first message must be Open, every later one Release or Assign";

std::string PeerOf(const Caller& caller) {
  return caller.process == 0 ? caller.peer
                             : absl::StrCat(caller.peer, " (process ", caller.process, ")");
}

}  // namespace

StreamSession* StreamSession::Start(const SessionContext& context, grpc::CallbackServerContext* rpc,
                                    Caller caller) {
  std::shared_ptr<StreamSession> session(new StreamSession(context, rpc, std::move(caller)));
  session->self_ = session;
  context.loop->Post([loop = context.loop, timer = session->open_timer_,
                      weak = std::weak_ptr<StreamSession>(session)] {
    *timer = loop->After(kOpenPatience, [weak] {
      if (const auto late = weak.lock()) late->OnLate();
    });
  });
  session->StartRead(&session->incoming_);
  return session.get();
}

StreamSession::StreamSession(const SessionContext& context, grpc::CallbackServerContext* rpc,
                             Caller caller)
    : context_(context),
      client_(caller.client),
      id_(caller.session),
      log_(PeerOf(caller), context.boot_id, context.stream_counts, context.refusal_lines),
      outbox_({[this](const grpc::ByteBuffer* message) { StartWrite(message); },
               [this](const absl::Status& status) {
                 log_.Ended(status);
                 Finish(ToRpcStatus(status));
               }}),
      opening_(context_, std::move(caller), outbox_, claims_, log_),
      rpc_(rpc) {}

void StreamSession::OnReadDone(bool ok) {
  if (!ok) {  // the client closed its side or is gone, and will release nothing
    outbox_.Abandon(opened_ ? absl::OkStatus() : ProtocolViolation("the stream ended before Open"));
    return;
  }
  if (opened_) {
    v1::StreamRequest request;
    absl::Status parsed = ParseRequest(incoming_, request);
    if (parsed.ok()) parsed = OnRequest(request);
    if (!parsed.ok()) outbox_.Finish(parsed);
  } else if (const absl::Status sound = CheckRequest(incoming_, v1::StreamRequest::descriptor());
             !sound.ok()) {
    outbox_.Finish(sound);
  } else {
    HandleOpen(incoming_);
  }
  incoming_.Clear();
  StartRead(&incoming_);
}

absl::Status StreamSession::OnRequest(const v1::StreamRequest& request) {
  if (request.has_assign()) return outbox_.Assign(request.assign());
  if (!request.has_release()) return ProtocolViolation(kOrderOfMessages);
  outbox_.Release(request.release().through_sequence());
  return absl::OkStatus();
}

void StreamSession::OnLate() {
  if (opened_) return;
  Evict(ProtocolViolation(
      absl::StrCat("no Open came within ", absl::ToInt64Seconds(kOpenPatience), " s")));
}

void StreamSession::HandleOpen(grpc::ByteBuffer bytes) {
  opened_ = true;
  CallAfter(context_.loop, absl::ZeroDuration(), this, &StreamSession::Beat);
  const absl::Status started =
      context_.sessions->StartThread([self = self_, bytes = std::move(bytes)]() mutable {
        const absl::Status status = self->Open(std::move(bytes));
        if (!status.ok()) self->outbox_.Finish(status);
      });
  if (!started.ok()) outbox_.Finish(started);
}

absl::Status StreamSession::Open(grpc::ByteBuffer bytes) {
  const StorageWatch::Scope watched(context_.storage, caller_);
  BULKHEAD_ASSIGN_OR_RETURN(
      RequestMemory::Place place,
      context_.request_memory->Enter(client_, bytes.Length(), [this] { return outbox_.gone(); }));
  v1::StreamRequest request;
  BULKHEAD_RETURN_IF_ERROR(ParseRequest(bytes, request));
  bytes.Clear();
  if (!request.has_open()) return ProtocolViolation(kOrderOfMessages);
  outbox_.SetCredits(request.open().credits());
  const std::shared_ptr<StreamSession> self = shared_from_this();
  const std::weak_ptr<StreamSession> weak = self;
  return opening_.Run(*request.mutable_open(), place,
                      {self,
                       [weak](const absl::Status& why) {
                         const auto session = weak.lock();
                         return session != nullptr ? session->Evict(why) : nullptr;
                       },
                       [weak](uint32_t slots) {
                         if (const auto session = weak.lock()) session->outbox_.ReleaseSlots(slots);
                       }});
}

void StreamSession::Beat() {
  if (const absl::Status stalled = caller_->Stalled(); !stalled.ok()) Evict(stalled);
  if (!outbox_.Beat(context_.supervisor->SilentFor())) return;
  CallAfter(context_.loop, kHeartbeat, this, &StreamSession::Beat);
}

void StreamSession::OnFailed(const absl::Status& status) {
  opening_.OnFailed(status);
  const auto info = GetErrorInfo(status);
  if (info.has_value() &&
      (info->reason == reason::kShuttingDown || info->reason == reason::kStreamIdle)) {
    // Queued messages may wait for credits that never come; the next stream sends their batches
    // again.
    Evict(status);
  } else {
    outbox_.Finish(status);
  }
}

std::shared_ptr<Legacy> StreamSession::Evict(const absl::Status& status) {
  outbox_.Evict(status);
  std::shared_ptr<Legacy> legacy = claims_.End(/*bequeath=*/true);
  CallAfter(context_.loop, kLastWords, this, &StreamSession::Cut);
  return legacy;
}

void StreamSession::Cut() {
  absl::MutexLock lock(&mutex_);
  if (rpc_ != nullptr) rpc_->TryCancel();
}

void StreamSession::OnDone() {
  claims_.End();
  {
    absl::MutexLock lock(&mutex_);
    rpc_ = nullptr;
  }
  context_.loop->Post([loop = context_.loop, timer = open_timer_] { loop->Cancel(*timer); });
  SessionRegistry* const sessions = context_.sessions;
  const uint64_t id = id_;
  self_.reset();  // may delete this
  sessions->Remove(id);
}

}  // namespace bulkhead
