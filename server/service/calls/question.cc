#include "server/service/calls/question.h"

#include <algorithm>
#include <memory>

#include "server/service/rpc_error.h"

namespace bulkhead {

void Question::OnRequest(grpc::ByteBuffer bytes) {
  const auto self = std::static_pointer_cast<Question>(shared_from_this());
  auto work = [self, bytes = std::move(bytes)] { self->Work(bytes); };
  const absl::Duration wait =
      std::min(pace_.longest, pace_.clients->Take(client_, pace_.interval, MonotonicNanos()));
  if (wait == absl::ZeroDuration()) {
    work();
  } else {
    loop_->Post([loop = loop_, wait, work = std::move(work)] { loop->After(wait, work); });
  }
}

void Question::Work(const grpc::ByteBuffer& bytes) {
  if (sessions_ == nullptr) return End(answer_(bytes));
  const auto self = std::static_pointer_cast<Question>(shared_from_this());
  const absl::Status started =
      sessions_->StartThread([self, bytes] { self->End(self->answer_(bytes)); });
  if (!started.ok()) End(started);
}

void Question::End(absl::StatusOr<grpc::ByteBuffer> answer) {
  if (ended_.exchange(true)) return;
  if (sessions_ != nullptr) sessions_->RemoveQuestion(client_);
  if (answer.ok()) {
    response_ = *std::move(answer);
    StartWriteAndFinish(&response_, grpc::WriteOptions(), grpc::Status::OK);
  } else {
    Finish(ToRpcStatus(answer.status()));
  }
}

}  // namespace bulkhead
