#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <utility>

#include "absl/time/time.h"
#include "server/os/event_loop.h"
#include "server/supervisor/trace/trace_log.h"

namespace bulkhead {

// Something of which a trace tells. Adds to the tracer's log.
class TraceSource {
 public:
  virtual ~TraceSource() = default;
  // A trace has begun: tells what is under way, and gets ready.
  virtual void BeginTrace() = 0;
  // Adds what is new. Called every few milliseconds.
  virtual void ReadTrace() {}
  // The trace is about to end: adds what is left, and what is not finished.
  virtual void EndTrace() {}
};

// Takes traces: has all sources look while a trace is on. Lives on the supervisor's thread; the log
// is for every thread.
class Tracer : public std::enable_shared_from_this<Tracer> {
 public:
  static constexpr absl::Duration kInterval = absl::Milliseconds(5);

  explicit Tracer(std::shared_ptr<EventLoop> loop) : loop_(std::move(loop)) {}

  const std::shared_ptr<TraceLog>& log() const { return log_; }
  void Add(TraceSource* source) {
    sources_.insert(source);
    if (number_ != 0) source->BeginTrace();
  }
  void Remove(TraceSource* source) { sources_.erase(source); }

  // Takes the trace that was begun in the log with that number, for so long.
  void Take(uint64_t number, absl::Duration duration) {
    const bool looks = number_ != 0;  // for an earlier one, whose client is gone
    number_ = number;
    end_ns_ = MonotonicNanos() + absl::ToInt64Nanoseconds(duration);
    for (TraceSource* source : sources_) source->BeginTrace();
    if (!looks) Look();
  }

 private:
  void Look() {
    if (log_->IsOn(number_)) {
      if (MonotonicNanos() >= end_ns_) return End();
      for (TraceSource* source : sources_) source->ReadTrace();
    } else if (!log_->on()) {
      return End();
    }  // else the next one has begun, and Take is about to be called
    loop_->After(kInterval, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->Look();
    });
  }
  void End() {
    for (TraceSource* source : sources_) source->EndTrace();
    log_->End(number_, MonotonicNanos());
    number_ = 0;
  }

  const std::shared_ptr<EventLoop> loop_;
  const std::shared_ptr<TraceLog> log_ = std::make_shared<TraceLog>();
  std::set<TraceSource*> sources_;
  uint64_t number_ = 0;  // 0: none is taken
  int64_t end_ns_ = 0;
};

// Tells what is under way when a trace begins, for as long as it lives.
class TraceHook final : public TraceSource {
 public:
  // `tracer` may be null.
  TraceHook(std::shared_ptr<Tracer> tracer, std::function<void()> begin)
      : tracer_(std::move(tracer)), begin_(std::move(begin)) {
    if (tracer_ != nullptr) tracer_->Add(this);
  }
  ~TraceHook() override {
    if (tracer_ != nullptr) tracer_->Remove(this);
  }
  TraceHook(const TraceHook&) = delete;
  TraceHook& operator=(const TraceHook&) = delete;

  void BeginTrace() override { begin_(); }

 private:
  const std::shared_ptr<Tracer> tracer_;
  const std::function<void()> begin_;
};

}  // namespace bulkhead
