#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <set>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "bulkhead/v1/loader.pb.h"
#include "client/cpp/internal/stream/silence_watch.h"

namespace bulkhead::client_internal {

// Receives the events of a StreamCall, on the thread that runs the call.
class StreamCallReader {
 public:
  virtual ~StreamCallReader() = default;

  // A message arrived. Returns false when the message is invalid; the call then ends.
  virtual bool OnMessage(const grpc::ByteBuffer& message) = 0;
  // Nothing arrived for a tenth of the allowed silence.
  virtual void OnTick() = 0;
  // The service sent something before, but nothing for the whole allowed silence. Called once.
  virtual void OnSilence() = 0;
  // The call is over. Nothing is called after this.
  virtual void OnFinished(const grpc::Status& status) = 0;
};

// One call of Loader.Stream: what is sent, what is received, and how it ends.
//
//   Run: start ─▶ read ◀─▶ OnMessage … ─▶ finish ─▶ OnFinished
//         └────▶ write Open ─▶ write Release or Assign …
//
// One completion queue has at most one read, one write and one finish under way.
//
// Release, Assign and Cancel may be called by any thread, Run once and by one.
class StreamCall {
 public:
  StreamCall(std::shared_ptr<grpc::Channel> channel, absl::Duration silence);

  // Makes the call and sends `open`. Returns when the call is over and no operation is pending.
  void Run(const v1::Open& open, StreamCallReader* reader);
  // Returns the credits of all batches up to `through_sequence`. No effect after the call.
  void Release(uint64_t through_sequence) ABSL_LOCKS_EXCLUDED(mutex_);
  // Asks for batches; those before `needed_from` are no longer needed. No effect after the call.
  void Assign(const std::set<uint64_t>& sequences, uint64_t needed_from)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends the call, even before it runs. OnFinished is called then, too.
  void Cancel() { context_.TryCancel(); }

 private:
  void OnEvent(void* tag, bool ok);
  void OnStarted(bool ok);
  void OnRead(bool ok);
  void OnWritten(bool ok);
  void OnFinished();
  void WriteIfIdle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<grpc::Channel> channel_;
  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;

  // Of the thread that runs it.
  const v1::Open* open_ = nullptr;
  StreamCallReader* reader_ = nullptr;
  grpc::ByteBuffer incoming_;
  grpc::Status final_status_;
  SilenceWatch silence_;

  absl::Mutex mutex_;
  std::optional<uint64_t> release_ ABSL_GUARDED_BY(mutex_);   // to be written
  std::optional<v1::Assign> assign_ ABSL_GUARDED_BY(mutex_);  // to be written
  bool may_write_ ABSL_GUARDED_BY(mutex_) = false;            // between start and finish
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace bulkhead::client_internal
