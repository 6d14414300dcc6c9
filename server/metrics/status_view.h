#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bulkhead/v1/loader.pb.h"

namespace bulkhead {

// The facts that metrics are made of, at one moment: the status, and counts that only metrics need.
struct StatusSnapshot {
  // Not explicit: a status alone is a snapshot of a service that replaced no worker.
  StatusSnapshot(v1::GetStatusResponse service_status,
                 std::map<v1::RecycleCause, uint64_t> counts = {})
      : status(std::move(service_status)), recyclings(std::move(counts)) {}

  v1::GetStatusResponse status;
  std::map<v1::RecycleCause, uint64_t> recyclings;  // planned replacements since the start
};

// A status in the form that series need: everything with a series has label values that are unique
// within its kind, whatever the status contains. Immutable once made.
//
// Label values name places (a pipeline's slot, a stage, a stream), never processes: a replaced
// worker continues the series of its predecessor, so the number of series does not grow with time.
struct StatusView : StatusSnapshot {
  // A part of the status that has series.
  template <typename Message>
  struct Shown {
    const Message* status;
    std::vector<std::string> labels;
  };

  explicit StatusView(StatusSnapshot snapshot);
  StatusView(const StatusView&) = delete;
  StatusView& operator=(const StatusView&) = delete;

  // By pipeline, slot and role: "serving", "standby" (its successor, not in service yet), "leaving"
  // (its predecessor, not reaped yet) or "index".
  std::vector<Shown<v1::WorkerStatus>> workers;
  std::vector<Shown<v1::StageUsage>> stages;  // of workers: their labels, and the stage
  // By pipeline and slot. If two are the same, the later one in the status.
  std::vector<Shown<v1::PlaceTotals>> places;
  std::vector<Shown<v1::StageUsage>> place_stages;  // their labels, and the stage
  // By job and rank. If two have the same name and rank, the later one in the status. The second of
  // a job's streams with one rank has "py-host (2)" for its name, and so on, in the order in which
  // they were opened.
  std::vector<Shown<v1::StreamStatus>> streams;
  // By pipeline; verdicts by stage, too. If two have the same name, the later one in the status.
  std::vector<Shown<v1::Verdict>> verdicts;
  std::vector<Shown<v1::WorkerTuning>> tunings;

 private:
  void AddWorkers();
  void AddPlaces();
  void AddStreams();
};

// The name of a stream's job: default names of streams end in the process and a random number,
// "py-host-4711-ab12cd34", of which the job is "py-host".
std::string JobName(const std::string& stream);

// `text`, cut to at most 128 bytes at a character boundary, since clients choose names freely.
std::string LabelValue(const std::string& text);

}  // namespace bulkhead
