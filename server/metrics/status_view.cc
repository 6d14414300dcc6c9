#include "server/metrics/status_view.h"

#include <algorithm>
#include <functional>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace bulkhead {
namespace {

constexpr size_t kMaxLabelBytes = 128;
// At the end of a stream's default name, behind its process.
constexpr size_t kRandomDigits = 8;

using PlaceKey = std::pair<std::string, uint32_t>;

using Stages = std::vector<StatusView::Shown<v1::StageUsage>>;

// Adds those of a worker or place that has these labels.
void AddStages(const google::protobuf::RepeatedPtrField<v1::StageUsage>& usages,
               const std::vector<std::string>& labels, Stages& stages) {
  std::set<std::string> names;
  for (const v1::StageUsage& usage : usages) {
    const std::string name = LabelValue(usage.stage());
    if (!names.insert(name).second) continue;
    stages.push_back({&usage, labels});
    stages.back().labels.push_back(name);
  }
}

// The last of each pipeline's.
template <typename Message>
std::map<std::string, const Message*> ByPipeline(
    const google::protobuf::RepeatedPtrField<Message>& messages) {
  std::map<std::string, const Message*> last;
  for (const Message& message : messages) last[LabelValue(message.pipeline())] = &message;
  return last;
}

}  // namespace

std::string LabelValue(const std::string& text) {
  if (text.size() <= kMaxLabelBytes) return text;
  size_t end = kMaxLabelBytes;
  // Bytes 10xxxxxx go on with a character of UTF-8.
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end);
}

std::string JobName(const std::string& stream) {
  absl::string_view job = stream;
  const auto cut = [&job](absl::string_view digits) {
    const size_t dash = job.find_last_not_of(digits);
    if (dash == absl::string_view::npos || dash == 0 || job[dash] != '-') return size_t{0};
    const size_t length = job.size() - dash - 1;
    if (length > 0) job.remove_suffix(length + 1);
    return length;
  };
  if (cut("0123456789abcdef") != kRandomDigits) return stream;
  bool has_process = false;
  while (cut("0123456789") > 0) has_process = true;
  return has_process ? std::string(job) : stream;
}

StatusView::StatusView(StatusSnapshot snapshot) : StatusSnapshot(std::move(snapshot)) {
  AddWorkers();
  AddPlaces();
  AddStreams();
  for (const auto& [pipeline, verdict] : ByPipeline(status.verdicts())) {
    verdicts.push_back({verdict, {pipeline, LabelValue(verdict->stage())}});
  }
  for (const auto& [pipeline, tuning] : ByPipeline(status.tunings())) {
    tunings.push_back({tuning, {pipeline}});
  }
}

void StatusView::AddWorkers() {
  std::map<PlaceKey, std::vector<const v1::WorkerStatus*>> slots;
  uint32_t index_workers = 0;
  const auto add = [this](const v1::WorkerStatus* worker, const std::string& pipeline,
                          uint32_t slot, const char* role) {
    workers.push_back({worker, {pipeline, std::to_string(slot), role}});
    AddStages(worker->stages(), workers.back().labels, stages);
  };
  for (const v1::WorkerStatus& worker : status.workers()) {
    if (worker.role() == "index") {
      // They have no slots; the first of them is 0, whichever process that is.
      add(&worker, "", index_workers++, "index");
    } else {
      slots[{LabelValue(worker.pipeline()), worker.slot()}].push_back(&worker);
    }
  }
  for (auto& [place, rivals] : slots) {
    // Only workers that serve compete for a role; the standby comes in front, as the newest.
    std::ranges::sort(rivals, std::greater(), [](const auto* worker) {
      return std::tuple(worker->standby(), worker->generation(), !worker->draining());
    });
    std::set<std::string> taken;
    for (const v1::WorkerStatus* worker : rivals) {
      const char* role = worker->standby()             ? "standby"
                         : taken.count("serving") == 0 ? "serving"
                                                       : "leaving";
      if (taken.insert(role).second) add(worker, place.first, place.second, role);
    }
  }
}

void StatusView::AddPlaces() {
  std::map<PlaceKey, const v1::PlaceTotals*> last;
  for (const v1::PlaceTotals& place : status.places()) {
    last[{LabelValue(place.pipeline()), place.slot()}] = &place;
  }
  for (const auto& [key, totals] : last) {
    places.push_back({totals, {key.first, std::to_string(key.second)}});
    AddStages(totals->stages(), places.back().labels, place_stages);
  }
}

void StatusView::AddStreams() {
  using Name = std::pair<std::string, uint32_t>;  // and rank
  // Of a stream and its successor the successor.
  std::map<Name, const v1::StreamStatus*> named;
  for (const v1::StreamStatus& stream : status.streams()) {
    named[{stream.name(), stream.rank()}] = &stream;
  }
  std::map<Name, std::vector<const v1::StreamStatus*>> jobs;
  for (const auto& [name, stream] : named) {
    jobs[{LabelValue(JobName(name.first)), name.second}].push_back(stream);
  }
  for (auto& [job, same] : jobs) {
    std::ranges::stable_sort(same, {},
                             [](const auto* stream) { return stream->opened().seconds(); });
    size_t number = 0;
    for (const v1::StreamStatus* stream : same) {
      const std::string name =
          ++number == 1 ? job.first : absl::StrCat(job.first, " (", number, ")");
      streams.push_back({stream, {name, std::to_string(job.second)}});
    }
  }
}

}  // namespace bulkhead
