#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "bulkhead/loader.h"
#include "bulkhead/v1/loader.pb.h"
#include "client/cpp/internal/stream/inbox.h"
#include "client/cpp/internal/stream/receiver.h"
#include "client/cpp/internal/stream/stream_call.h"
#include "client/cpp/internal/stream/stream_config.h"

namespace bulkhead::client_internal {

// One call of Loader.Stream and the thread that reads it.
//
//   reader thread:  StreamCall ─▶ Receiver ─▶ Inbox ─┐
//   callers:        WaitOpened, Next  ◀──────────────┘
//   batch dropped:  Release → the credit, or the slot, goes back
//
// Life: Start → WaitOpened → Next … → Close. The first error stays; a service that says nothing at
// all for Config::silence is one. Batches hold the stream weakly, so they may outlive it; those in
// slots hold arena and door. What came whole before an error is still handed out. Thread-safe.
class Stream : private StreamCallReader {
 public:
  using Config = StreamConfig;

  // Connects. Errors of MakeChannel; RESOURCE_EXHAUSTED (OUT_OF_THREADS) when no thread can be
  // started.
  static absl::StatusOr<std::shared_ptr<Stream>> Start(Config config);
  ~Stream() override;

  // As Inbox's.
  absl::Status WaitOpened(absl::Duration silence,
                          const std::function<void(const LoaderProgress&)>& on_progress) {
    return inbox_.WaitOpened(silence, on_progress);
  }
  absl::StatusOr<std::optional<Batch>> Next(absl::Duration left, absl::Duration asked) {
    return inbox_.Next(left, asked);
  }
  const Inbox& inbox() const { return inbox_; }
  // With Open.assigned: asks for batches, by their numbers on the wire. Takes no lock under which
  // this class calls anybody.
  void Ask(const std::set<uint64_t>& batches, uint64_t needed_from) {
    call_.Assign(batches, needed_from);
  }
  void Close();

  // Whether there is, or was, a service at the address: it said something here or at its door, or
  // is one of our own, which was ready before.
  bool answered() const {
    return answered_.load() || config_.door != nullptr || config_.post_mortem != nullptr;
  }
  // After WaitOpened returned OK.
  const StreamInfo& info() const { return receiver_->info(); }
  const v1::Opened& opened() const { return receiver_->opened(); }
  const std::string& target() const { return config_.target; }

 private:
  Stream(Config config, std::shared_ptr<grpc::Channel> channel);

  // On the reader thread.
  bool OnMessage(const grpc::ByteBuffer& message) override;
  void OnTick() override;
  void OnSilence() override;
  void OnFinished(const grpc::Status& status) override;

  // Ends the call with `status`, unless it ended before.
  void Fail(absl::Status status);
  absl::Status Explain(const grpc::Status& status) const;
  absl::Status WithPostMortem(absl::Status error) const;

  const Config config_;
  StreamCall call_;
  Inbox inbox_;
  std::unique_ptr<Receiver> receiver_;
  std::atomic<bool> answered_ = false;
  absl::Mutex join_mutex_;
  std::thread reader_;
};

}  // namespace bulkhead::client_internal
