#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/os/event_loop.h"
#include "server/service/calls/call_after.h"
#include "server/service/calls/raw_service.h"
#include "server/service/rpc_error.h"

namespace bulkhead {

// Counts the refused calls that wait for their answer. Thread-safe.
class LateRefusals {
 public:
  // How long a refused call waits. A connection has few calls at a time, so at most some hundreds
  // of its calls are refused in a second.
  static constexpr absl::Duration kDelay = absl::Seconds(1);
  // At most this many wait; further calls are answered at once.
  static constexpr int kMost = 1024;

  bool Enter() {
    if (waiting_.fetch_add(1) < kMost) return true;
    waiting_.fetch_sub(1);
    return false;
  }
  void Leave() { waiting_.fetch_sub(1); }

 private:
  std::atomic<int> waiting_{0};
};

// Refuses a call after kDelay, or as soon as its client cancels it. UNAVAILABLE, which sends the
// client to another service, is answered at once. Keeps itself alive until gRPC is done with it.
// `loop` and `places` outlive it.
class LateRefusal final : public RawCall, public std::enable_shared_from_this<LateRefusal> {
 public:
  // The reactor to return to gRPC.
  static RawCall* Start(const absl::Status& status, EventLoop* loop, LateRefusals* places) {
    std::shared_ptr<LateRefusal> refusal(new LateRefusal(status, places));
    refusal->self_ = refusal;
    if (absl::IsUnavailable(status) || !places->Enter()) {
      refusal->places_ = nullptr;
      refusal->End();
      return refusal.get();
    }
    CallAfter(loop, LateRefusals::kDelay, refusal.get(), &LateRefusal::End);
    return refusal.get();
  }

  void OnCancel() override { End(); }
  void OnDone() override {
    if (places_ != nullptr) places_->Leave();
    self_.reset();  // may delete this
  }

 private:
  LateRefusal(absl::Status status, LateRefusals* places)
      : status_(std::move(status)), places_(places) {}

  void End() {
    if (!ended_.exchange(true)) Finish(ToRpcStatus(status_));
  }

  const absl::Status status_;
  LateRefusals* places_;               // null: it takes no place
  std::shared_ptr<LateRefusal> self_;  // until OnDone
  std::atomic<bool> ended_{false};
};

}  // namespace bulkhead
