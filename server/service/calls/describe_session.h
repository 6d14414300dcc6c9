#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <atomic>
#include <deque>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "bulkhead/v1/loader.pb.h"
#include "server/service/calls/request_call.h"
#include "server/service/session_context.h"

namespace bulkhead {

// One call of Loader.Describe. Works on a thread of its own; writes Progress, then the Description.
class DescribeSession final : public RequestCall {
 public:
  // A call of `client`, which has a place in context.sessions.
  DescribeSession(const SessionContext& context, const std::string& client)
      : context_(context), client_(client) {}

  void OnWriteDone(bool ok) override;

 private:
  void OnRequest(grpc::ByteBuffer bytes) override;
  void OnGone() override;
  void FinishWith(const absl::Status& status) override ABSL_LOCKS_EXCLUDED(mutex_);

  absl::StatusOr<v1::Description> Describe(grpc::ByteBuffer bytes);
  void Enqueue(const v1::DescribeResponse& response) ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends the call if its storage hangs. Repeats itself every second.
  void Look() ABSL_LOCKS_EXCLUDED(mutex_);
  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const SessionContext context_;
  const std::string client_;
  RequestMemory::Place place_;  // until the answer is written
  std::atomic<bool> gone_{false};
  const std::shared_ptr<StorageWatch::Caller> caller_ = std::make_shared<StorageWatch::Caller>();

  absl::Mutex mutex_;
  std::deque<grpc::ByteBuffer> queue_ ABSL_GUARDED_BY(mutex_);
  grpc::ByteBuffer writing_ ABSL_GUARDED_BY(mutex_);
  bool write_active_ ABSL_GUARDED_BY(mutex_) = false;
  bool finish_called_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> final_status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace bulkhead
