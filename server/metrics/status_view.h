#ifndef BULKHEAD_SERVER_METRICS_STATUS_VIEW_H_
#define BULKHEAD_SERVER_METRICS_STATUS_VIEW_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "bulkhead/v1/loader.pb.h"
#include "server/metrics/status_snapshot.h"

namespace bulkhead {

// A status as series need it: everything that has a series of its own has label values that nothing
// else of its kind has, whatever the status holds. Immutable.
//
// Label values name places (a pipeline's slot, a stage, a stream), never processes: a replaced
// worker goes on in the series of the one before it, so series do not grow with time.
class StatusView {
 public:
  struct Stage {
    const v1::StageUsage* usage;
    std::vector<std::string> labels;  // pipeline, slot, role, stage
  };
  struct Worker {
    const v1::WorkerStatus* status;
    // Pipeline, slot and role: "serving", "standby" (its successor, not in service yet), "leaving"
    // (its predecessor, not reaped yet) or "index".
    std::vector<std::string> labels;
    std::vector<Stage> stages;
  };
  struct Stream {
    const v1::StreamStatus* status;
    std::vector<std::string> labels;  // stream, rank
  };

  explicit StatusView(StatusSnapshot snapshot);
  StatusView(const StatusView&) = delete;
  StatusView& operator=(const StatusView&) = delete;

  const v1::GetStatusResponse& status() const { return snapshot_.status; }
  // Planned replacements since the service's start.
  const std::map<v1::RecycleCause, uint64_t>& recyclings() const { return snapshot_.recyclings; }
  // By pipeline, slot and role.
  const std::vector<Worker>& workers() const { return workers_; }
  // By name and rank. Of two with the same, the later one in the status.
  const std::vector<Stream>& streams() const { return streams_; }

 private:
  void AddWorkers();
  void AddStreams();

  const StatusSnapshot snapshot_;
  std::vector<Worker> workers_;
  std::vector<Stream> streams_;
};

// `text`, cut to at most 128 bytes between two characters: names are the clients' choice.
std::string LabelValue(const std::string& text);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_METRICS_STATUS_VIEW_H_
