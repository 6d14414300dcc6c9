#include "server/service/calls/question.h"

#include "server/service/rpc_error.h"

namespace bulkhead {

void Question::OnRequest(grpc::ByteBuffer bytes) {
  const auto self = std::static_pointer_cast<Question>(shared_from_this());
  auto work = [self, bytes = std::move(bytes)] { self->Work(bytes); };
  const absl::Duration wait = pace_->Take(client_, interval_, MonotonicNanos());
  if (wait == absl::ZeroDuration()) {
    work();
  } else {
    loop_->Post([loop = loop_, wait, work = std::move(work)]() mutable {
      loop->After(wait, std::move(work));
    });
  }
}

void Question::Work(const grpc::ByteBuffer& bytes) {
  const auto self = std::static_pointer_cast<Question>(shared_from_this());
  const absl::Status started =
      sessions_->StartThread([self, bytes] { self->End(self->answer_(bytes)); });
  if (!started.ok()) End(started);
}

void Question::End(absl::StatusOr<grpc::ByteBuffer> answer) {
  {
    absl::MutexLock lock(&mutex_);
    if (std::exchange(finished_, true)) return;
  }
  sessions_->RemoveQuestion(client_);
  if (answer.ok()) {
    response_ = *std::move(answer);
    StartWriteAndFinish(&response_, grpc::WriteOptions(), grpc::Status::OK);
  } else {
    Finish(ToRpcStatus(answer.status()));
  }
}

}  // namespace bulkhead
