// Each stream and its arena.
#include "server/metrics/enum_label.h"
#include "server/metrics/metric_groups.h"

namespace bulkhead {
namespace {

using prometheus::MetricType;

const std::vector<const char*> kStreamLabels = {"stream", "rank"};

void ReadStreamInfo(const StatusView& view, Series& series) {
  const auto transports = EnumLabels(*v1::Transport_descriptor(), "TRANSPORT_");
  for (const StatusView::Stream& stream : view.streams()) {
    const auto transport = transports.find(stream.status->transport());
    series.Add({stream.labels[0], stream.labels[1], LabelValue(stream.status->pipeline()),
                transport == transports.end() ? "" : transport->second},
               1);
  }
}

void ReadSlots(const StatusView& view, Series& series) {
  for (const StatusView::Stream& stream : view.streams()) {
    const v1::ArenaStatus& arena = stream.status->arena();
    const auto add = [&](const char* state, uint32_t slots) {
      series.Add({stream.labels[0], stream.labels[1], state}, slots);
    };
    add("free", arena.slots_free());
    add("filling", arena.slots_filling());
    add("ready", arena.slots_ready());
    add("sending", arena.slots_sending());
  }
}

// One number of every stream.
template <typename Value>
auto EachStream(Value value) {
  return [value](const StatusView& view, Series& series) {
    for (const StatusView::Stream& stream : view.streams()) {
      series.Add(stream.labels, static_cast<double>(value(*stream.status)));
    }
  };
}

}  // namespace

std::vector<Metric> StreamMetrics() {
  return {
      {"bulkhead_stream_info",
       MetricType::Gauge,
       "",
       {"stream", "rank", "pipeline", "transport"},
       "The stream's pipeline and transport; always 1.",
       ReadStreamInfo},
      {"bulkhead_stream_arena_bytes", MetricType::Gauge, "bytes", kStreamLabels,
       "Size of the stream's arena.",
       EachStream([](const auto& stream) { return stream.arena().bytes(); })},
      {"bulkhead_stream_arena_slots",
       MetricType::Gauge,
       "",
       {"stream", "rank", "state"},
       "Slots of the stream's arena by state; those that the client holds are sending.",
       ReadSlots},
      {"bulkhead_stream_batches_sent_total", MetricType::Counter, "", kStreamLabels,
       "Batches that were handed to the stream's client since it connected.",
       EachStream([](const auto& stream) { return stream.batches_sent(); })},
      {"bulkhead_stream_batches_released_total", MetricType::Counter, "", kStreamLabels,
       "Batches that the stream's client gave back.",
       EachStream([](const auto& stream) { return stream.batches_released(); })},
      {"bulkhead_stream_epoch", MetricType::Gauge, "", kStreamLabels,
       "Epoch that the stream is in, from 0.",
       EachStream([](const auto& stream) { return stream.epoch(); })},
  };
}

}  // namespace bulkhead
