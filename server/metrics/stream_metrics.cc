// Each stream and its arena.
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/base/error.h"
#include "server/metrics/metric_groups.h"

namespace bulkhead {
namespace {

const std::vector<const char*> kStreamLabels = {"stream", "rank"};
constexpr auto kStreams = &StatusView::streams;

void ReadStreamInfo(const StatusView& view, Series& series) {
  for (const auto& [stream, labels] : view.streams) {
    series.Add({labels[0], labels[1], LabelValue(stream->pipeline()),
                EnumLabel(stream->transport(), "TRANSPORT_")},
               1);
  }
}

void ReadSlots(const StatusView& view, Series& series) {
  for (const auto& [stream, labels] : view.streams) {
    const v1::ArenaStatus& arena = stream->arena();
    series.Add({labels[0], labels[1], "free"}, arena.slots_free());
    series.Add({labels[0], labels[1], "filling"}, arena.slots_filling());
    series.Add({labels[0], labels[1], "ready"}, arena.slots_ready());
    series.Add({labels[0], labels[1], "sending"}, arena.slots_sending());
  }
}

void ReadGaps(const StatusView& view, Series& series) {
  for (const auto& [stream, labels] : view.streams) series.Add(labels, stream->batch_gaps());
}

void ReadPipelineInfo(const StatusView& view, Series& series) {
  std::set<std::vector<std::string>> pipelines;
  for (const v1::StreamStatus& stream : view.status.streams()) {
    pipelines.insert({LabelValue(stream.pipeline()), LabelValue(stream.spec()),
                      LabelValue(stream.fingerprint())});
  }
  for (const auto& pipeline : pipelines) series.Add(pipeline, 1);
}

// What a dashboard or an alert takes the increase of begins at 0: a series that begins with its
// first event has none. Rarer reasons begin with their first event.
const std::map<v1::StreamCount::Event, std::vector<absl::string_view>> kCountedFromZero = {
    {v1::StreamCount::EVENT_OPENED, {"new", "resumed"}},
    {v1::StreamCount::EVENT_REFUSED,
     {reason::kSpecInvalid, reason::kFileNotFound, reason::kPathNotAllowed, reason::kCursorMismatch,
      reason::kBudgetExceeded, reason::kAccessDenied, reason::kOpenedTooOften,
      reason::kTooManyCalls}},
    {v1::StreamCount::EVENT_ENDED,
     {"finished", "closed", "gone", reason::kSuperseded, reason::kStreamIdle,
      reason::kStorageStalled, reason::kWorkerCrashLoop, reason::kTooManySubstitutions}},
};

void ReadStreamCounts(const StatusView& view, Series& series) {
  std::map<std::pair<v1::StreamCount::Event, absl::string_view>, uint64_t> counts;
  for (const auto& [event, reasons] : kCountedFromZero) {
    for (const absl::string_view why : reasons) counts[{event, why}] = 0;
  }
  for (const v1::StreamCount& counted : view.status.stream_counts()) {
    counts[{counted.event(), counted.reason()}] = counted.count();
  }
  for (const auto& [what, count] : counts) {
    const std::string event = EnumLabel(what.first, "EVENT_");
    if (event.empty()) continue;
    series.Add({event, LabelValue(std::string(what.second))}, static_cast<double>(count));
  }
}

}  // namespace

std::vector<Metric> StreamMetrics() {
  return {
      {"bulkhead_stream_info",
       "The stream's pipeline and transport; always 1.",
       ReadStreamInfo,
       {"stream", "rank", "pipeline", "transport"}},
      {"bulkhead_stream_arena_bytes", "Size of the stream's arena.",
       Each(kStreams, [](const auto& stream) { return stream.arena().bytes(); }), kStreamLabels},
      {"bulkhead_stream_arena_slots",
       "Slots of the stream's arena by state; those that the client holds are sending.",
       ReadSlots,
       {"stream", "rank", "state"}},
      {"bulkhead_stream_batches_sent_total",
       "Batches that were handed to the stream's client since it connected.",
       Each(kStreams, [](const auto& stream) { return stream.batches_sent(); }), kStreamLabels},
      {"bulkhead_stream_batches_released_total", "Batches that the stream's client gave back.",
       Each(kStreams, [](const auto& stream) { return stream.batches_released(); }), kStreamLabels},
      {"bulkhead_stream_samples_sent_total",
       "Genuine samples in the batches that were handed to the stream's client.",
       Each(kStreams, [](const auto& stream) { return stream.samples_sent(); }), kStreamLabels},
      {"bulkhead_stream_batches_shared_total",
       "Batches of the stream that were made for several streams at once.",
       Each(kStreams, [](const auto& stream) { return stream.share().batches_shared(); }),
       kStreamLabels},
      {"bulkhead_stream_share_fallen_out_total",
       "Times that the stream came to be too far from the others of its group to share batches.",
       Each(kStreams, [](const auto& stream) { return stream.share().times_fallen_out(); }),
       kStreamLabels},
      {"bulkhead_stream_waiting_for_workers_seconds_total",
       "Time in which the stream's client could have taken a batch, and none was ready.",
       Each(kStreams, [](const auto& stream) { return stream.waiting_for_workers_seconds(); }),
       kStreamLabels},
      {"bulkhead_stream_waiting_for_objects_seconds_total",
       "Part of the time in which the stream's client waited for workers: these waited for bytes "
       "of an object store.",
       Each(kStreams, [](const auto& stream) { return stream.waiting_for_objects_seconds(); }),
       kStreamLabels},
      {"bulkhead_stream_waiting_for_trainer_seconds_total",
       "Time in which the stream's client held all batches that it may hold, or left a ready one.",
       Each(kStreams, [](const auto& stream) { return stream.waiting_for_trainer_seconds(); }),
       kStreamLabels},
      {"bulkhead_stream_batch_gap_seconds",
       "Times between batches that were handed to the stream's client.", ReadGaps, kStreamLabels,
       /*is_histogram=*/true},
      {"bulkhead_pipeline_info",
       "The spec of a stream of the pipeline, and the fingerprint of its bytes; always 1.",
       ReadPipelineInfo,
       {"pipeline", "spec", "fingerprint"}},
      {"bulkhead_streams_total",
       "Streams that were opened, refused or ended, by the reason.",
       ReadStreamCounts,
       {"event", "reason"}},
      {"bulkhead_stream_epoch", "Epoch that the stream is in, from 0.",
       Each(kStreams, [](const auto& stream) { return stream.epoch(); }), kStreamLabels},
  };
}

}  // namespace bulkhead
