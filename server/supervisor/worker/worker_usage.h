#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "bulkhead/v1/loader.pb.h"
#include "server/arena/flight_recorder.h"
#include "server/os/process/process_usage.h"
#include "server/supervisor/worker/worker_process.h"

namespace bulkhead {

// The record of an exit, without slot and generation.
v1::WorkerExit MakeWorkerExit(pid_t pid, const WorkerEnd& end, uint64_t peak_memory_bytes);

// Fills in pid, state and the peak so far of a living process. Needs status.leases().
void DescribeProcess(const WorkerHandle& process, uint64_t peak_memory_bytes,
                     v1::WorkerStatus& status);

// Appends the stages that hold memory or have run, largest first.
void AppendStages(const FlightSnapshot& flight,
                  google::protobuf::RepeatedPtrField<v1::StageUsage>& stages);

// Adds what a worker has done to the totals of its place.
void AddTotals(uint64_t samples, const FlightSnapshot& flight, v1::PlaceTotals& place);

// Adds the counts of decoded JPEG files and of samples served from a cache.
void AddDecodes(const FlightSnapshot& flight, v1::JpegDecodes& sum, v1::KeptCounts& kept);
void AddDecodes(const v1::JpegDecodes& more, v1::JpegDecodes& sum);

// Appends what the threads that work on samples are doing.
void AppendActivity(const FlightSnapshot& flight,
                    google::protobuf::RepeatedPtrField<v1::ThreadActivity>& activity);

// "stages[1] resize asked for 10MiB when the worker held 508MiB of its quota of 512MiB, most of it
// in stages[0] decode_image (412MiB)"; empty: no allocation was refused.
std::string DescribeRefusal(const FlightSnapshot& flight, uint64_t held_bytes,
                            uint64_t quota_bytes);

// "it wrote to a batch that was not its own (slot 2) in stages[0] native".
std::string DescribeWildAccess(const FlightSnapshot::WildAccess& wild);

// Raises `peak_memory_bytes` to the process's current use without clean file pages. Cheap.
void SamplePeak(pid_t pid, uint64_t& peak_memory_bytes);

// Adds the usage of processes to a status. What stalls a process for a time proportional to its
// memory, counting its own file pages, is done anew when they changed or when a `fresh` reading is
// asked for. A reading is reused, which limits the cost of all to 5 % of a CPU. Thread-safe; not
// for the supervisor's thread.
class UsageReader {
 public:
  // Fills in the usage of this process and of the workers with a pid, and adds theirs to
  // cpu_seconds, of the service and of their places. Neither these nor the peak of a living process
  // ever decreases. A reading serves for 20 times as long as it took, and for 0.1 s at least; with
  // `fresh` for as long as it took, and 10 ms at least, so that asking all the time costs half a
  // CPU.
  void Fill(v1::GetStatusResponse& response, bool fresh) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Reads every process; soon after a reading, only processes that are not known yet.
  void Refresh(const v1::GetStatusResponse& response, bool fresh)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FillOne(pid_t pid, v1::ProcessUsage& usage) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FillPlaces(v1::GetStatusResponse& response) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  using Place = std::pair<std::string, uint32_t>;  // pipeline and slot
  struct Known {
    ProcessUsage usage;
    uint64_t peak_memory_bytes = 0;
    int64_t read_ns = 0;
  };
  absl::Mutex mutex_;
  std::map<pid_t, Known> known_ ABSL_GUARDED_BY(mutex_);
  // Of the last reading of all: until when it is fresh, and until when it serves.
  int64_t fresh_until_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t good_until_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  double cpu_seconds_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<Place, double> cpu_of_places_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace bulkhead
