#include "client/cpp/internal/stream/stream_call.h"

#include <utility>

#include "client/cpp/internal/base/steady.h"
#include "client/cpp/internal/rpc/channel.h"

namespace bulkhead::client_internal {
namespace {

// Tags of the operations on the completion queue.
enum Operation : intptr_t { kStart = 1, kRead, kWrite, kFinish };
void* TagOf(Operation operation) { return reinterpret_cast<void*>(operation); }

constexpr char kMethod[] = "/bulkhead.v1.Loader/Stream";

grpc::ByteBuffer Serialize(const v1::StreamRequest& request) {
  const grpc::Slice slice(request.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace

StreamCall::StreamCall(std::shared_ptr<grpc::Channel> channel, absl::Duration silence)
    : channel_(std::move(channel)), stub_(channel_), silence_(silence) {}

void StreamCall::Run(const v1::Open& open, StreamCallReader* reader) {
  open_ = &open;
  reader_ = reader;
  call_ = stub_.PrepareCall(&context_, kMethod, &queue_);
  call_->StartCall(TagOf(kStart));
  Stopwatch lap;
  for (;;) {
    void* tag = nullptr;
    bool ok = false;
    const auto next = queue_.AsyncNext(&tag, &ok, GrpcDeadline(silence_.slice()));
    if (next == grpc::CompletionQueue::SHUTDOWN) return;
    silence_.Passed(lap.elapsed());
    lap = Stopwatch();
    if (next == grpc::CompletionQueue::GOT_EVENT) {
      OnEvent(tag, ok);
      continue;
    }
    if (silence_.too_long()) {
      silence_.Stop();
      reader_->OnSilence();
    }
    reader_->OnTick();
  }
}

void StreamCall::OnEvent(void* tag, bool ok) {
  switch (static_cast<Operation>(reinterpret_cast<intptr_t>(tag))) {
    case kStart:
      OnStarted(ok);
      break;
    case kRead:
      OnRead(ok);
      break;
    case kWrite:
      OnWritten(ok);
      break;
    case kFinish:
      OnFinished();
      break;
  }
}

void StreamCall::OnStarted(bool ok) {
  if (ok) {
    v1::StreamRequest request;
    *request.mutable_open() = *open_;
    absl::MutexLock lock(&mutex_);
    may_write_ = true;
    writing_ = true;
    call_->Write(Serialize(request), TagOf(kWrite));
  } else {
    call_->Finish(&final_status_, TagOf(kFinish));
    return;
  }
  call_->Read(&incoming_, TagOf(kRead));
}

void StreamCall::OnRead(bool ok) {
  if (ok) {
    silence_.Heard();
    const bool usable = reader_->OnMessage(incoming_);
    incoming_.Clear();
    if (usable) {
      call_->Read(&incoming_, TagOf(kRead));
      return;
    }
    Cancel();
  }
  {
    absl::MutexLock lock(&mutex_);
    may_write_ = false;
  }
  call_->Finish(&final_status_, TagOf(kFinish));
}

void StreamCall::OnWritten(bool ok) {
  absl::MutexLock lock(&mutex_);
  writing_ = false;
  if (finished_) {
    queue_.Shutdown();  // the finish waited for this write
  } else if (ok) {
    WriteIfIdle();
  }
}

void StreamCall::OnFinished() {
  silence_.Stop();
  reader_->OnFinished(final_status_);
  absl::MutexLock lock(&mutex_);
  may_write_ = false;
  finished_ = true;
  if (!writing_) queue_.Shutdown();
}

void StreamCall::Release(uint64_t through_sequence) {
  absl::MutexLock lock(&mutex_);
  release_ = through_sequence;
  WriteIfIdle();
}

void StreamCall::Assign(const std::set<uint64_t>& sequences, uint64_t needed_from) {
  absl::MutexLock lock(&mutex_);
  if (!assign_.has_value()) assign_.emplace();
  for (const uint64_t sequence : sequences) assign_->add_sequences(sequence);
  assign_->set_needed_from(needed_from);
  WriteIfIdle();
}

void StreamCall::WriteIfIdle() {
  if (!may_write_ || writing_) return;
  v1::StreamRequest request;
  if (assign_.has_value()) {
    *request.mutable_assign() = *std::exchange(assign_, std::nullopt);
  } else if (release_.has_value()) {
    request.mutable_release()->set_through_sequence(*std::exchange(release_, std::nullopt));
  } else {
    return;
  }
  writing_ = true;
  call_->Write(Serialize(request), TagOf(kWrite));
}

}  // namespace bulkhead::client_internal
