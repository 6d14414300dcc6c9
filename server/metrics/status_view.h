#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "bulkhead/v1/loader.pb.h"
#include "server/metrics/status_snapshot.h"

namespace bulkhead {

// A status in the form that series need: everything with a series has label values that are unique
// within its kind, whatever the status contains. Immutable.
//
// Label values name places (a pipeline's slot, a stage, a stream), never processes: a replaced
// worker continues the series of its predecessor, so the number of series does not grow with time.
class StatusView {
 public:
  struct Stage {
    const v1::StageUsage* usage;
    std::vector<std::string> labels;  // pipeline, slot, role, stage; without role for places
  };
  struct Worker {
    const v1::WorkerStatus* status;
    // Pipeline, slot and role: "serving", "standby" (its successor, not in service yet), "leaving"
    // (its predecessor, not reaped yet) or "index".
    std::vector<std::string> labels;
    std::vector<Stage> stages;
  };
  struct Place {
    const v1::PlaceTotals* totals;
    std::vector<std::string> labels;  // pipeline and slot
    std::vector<Stage> stages;        // pipeline, slot, stage
  };
  struct Stream {
    const v1::StreamStatus* status;
    std::vector<std::string> labels;  // stream, rank
  };

  struct Verdict {
    const v1::Verdict* status;
    std::vector<std::string> labels;  // pipeline, stage
  };

  explicit StatusView(StatusSnapshot snapshot);
  StatusView(const StatusView&) = delete;
  StatusView& operator=(const StatusView&) = delete;

  const v1::GetStatusResponse& status() const { return snapshot_.status; }
  // Planned replacements since the service's start.
  const std::map<v1::RecycleCause, uint64_t>& recyclings() const { return snapshot_.recyclings; }
  // By pipeline, slot and role.
  const std::vector<Worker>& workers() const { return workers_; }
  // By pipeline and slot. If two are the same, the later one in the status.
  const std::vector<Place>& places() const { return places_; }
  // By job and rank. If two have the same name and rank, the later one in the status. The second of
  // a job's streams with one rank has "py-host (2)" for its name, and so on, in the order in which
  // they were opened.
  const std::vector<Stream>& streams() const { return streams_; }
  // By pipeline. If two have the same name, the later one in the status.
  const std::vector<Verdict>& verdicts() const { return verdicts_; }

 private:
  void AddWorkers();
  void AddPlaces();
  void AddStreams();
  void AddVerdicts();

  const StatusSnapshot snapshot_;
  std::vector<Worker> workers_;
  std::vector<Place> places_;
  std::vector<Stream> streams_;
  std::vector<Verdict> verdicts_;
};

// The name of a stream's job: default names of streams end in the process and a random number,
// "py-host-4711-ab12cd34", of which the job is "py-host".
std::string JobName(const std::string& stream);

// `text`, cut to at most 128 bytes at a character boundary, since clients choose names freely.
std::string LabelValue(const std::string& text);

}  // namespace bulkhead
