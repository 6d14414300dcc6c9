#ifndef BULKHEAD_SERVER_SUPERVISOR_WORKER_USAGE_H_
#define BULKHEAD_SERVER_SUPERVISOR_WORKER_USAGE_H_

#include <cstdint>
#include <map>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "bulkhead/v1/loader.pb.h"
#include "server/arena/flight_recorder.h"
#include "server/os/process/process_usage.h"
#include "server/supervisor/worker_process.h"

namespace bulkhead {

// The record of an exit, without the place (slot, generation) that the process had.
v1::WorkerExit MakeWorkerExit(pid_t pid, const WorkerEnd& end, uint64_t peak_memory_bytes);

// Fills in what a living process is: pid, state, the peak known so far. Needs status.leases().
void DescribeProcess(const WorkerHandle& process, uint64_t peak_memory_bytes,
                     v1::WorkerStatus& status);

// The stages that hold anything or have run, those that hold most first.
void AppendStages(const FlightSnapshot& flight,
                  google::protobuf::RepeatedPtrField<v1::StageUsage>& stages);

// Adds up JPEG files that were decoded, and samples that need not be: those of a worker to those of
// others.
void AddDecodes(const FlightSnapshot& flight, v1::JpegDecodes& sum, v1::KeptCounts& kept);
void AddDecodes(const v1::JpegDecodes& more, v1::JpegDecodes& sum);

// What the threads that are at a sample are at.
void AppendActivity(const FlightSnapshot& flight,
                    google::protobuf::RepeatedPtrField<v1::ThreadActivity>& activity);

// "it wrote to a batch that was not its own (slot 2) in stages[0] native".
std::string DescribeWildAccess(const FlightSnapshot::WildAccess& wild);

// Raises `peak_memory_bytes` to what the process uses now, clean file pages left out: cheap.
void SamplePeak(pid_t pid, uint64_t& peak_memory_bytes);

// Adds what processes use to a status. Reading a process's memory takes time in proportion to it
// and holds the process up, so what was read is good for 100 ms and for 20 times as long as reading
// took: whoever asks without pause gets old figures, at 5 % of a CPU. Thread-safe; not for the
// supervisor's thread.
class UsageReader {
 public:
  // Fills in the usage of this process and of the workers with a pid, and raises cpu_seconds by
  // theirs. Neither cpu_seconds nor the peaks of a living process ever go down.
  void Fill(v1::GetStatusResponse& response) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Reads every process anew, or those that are not known yet when that was done a moment ago.
  void Refresh(const v1::GetStatusResponse& response) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FillOne(pid_t pid, v1::ProcessUsage& usage) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  struct Known {
    ProcessUsage usage;
    uint64_t peak_memory_bytes = 0;
  };
  absl::Mutex mutex_;
  std::map<pid_t, Known> known_ ABSL_GUARDED_BY(mutex_);
  int64_t good_until_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  double cpu_seconds_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SUPERVISOR_WORKER_USAGE_H_
