#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/supervisor/trace/tracer.h"
#include "server/supervisor/worker/flight_reader.h"

namespace bulkhead {

// Has a worker's threads note what they do while a trace is taken, and hands it over. Drops what
// cannot be true, as FlightReader does: spans of unknown kinds and stages, and those that are not
// within the worker's life. Lives on the supervisor's thread.
class WorkerTrace final : public TraceSource {
 public:
  // `flight` must outlive this. `worker` is without its stages.
  WorkerTrace(std::shared_ptr<Tracer> tracer, FlightReader& flight, v1::TracedWorker worker)
      : tracer_(std::move(tracer)), flight_(flight), worker_(std::move(worker)) {
    tracer_->Add(this);
  }
  ~WorkerTrace() override { tracer_->Remove(this); }
  WorkerTrace(const WorkerTrace&) = delete;
  WorkerTrace& operator=(const WorkerTrace&) = delete;

  void BeginTrace() override;
  void ReadTrace() override { Read(/*end=*/false); }
  void EndTrace() override;
  // The worker has ended, and will not write again.
  void NoteEnd(const std::string& reason);

 private:
  // Adds what the threads have noted, and with `end` what they are at.
  void Read(bool end);
  // What a thread is at.
  std::vector<FlightSpan> Unfinished(uint32_t thread, int64_t now_ns) const;

  const std::shared_ptr<Tracer> tracer_;
  FlightReader& flight_;
  v1::TracedWorker worker_;
  std::vector<uint64_t> next_;  // span of each thread; empty: not traced
};

}  // namespace bulkhead
