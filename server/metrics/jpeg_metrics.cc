// What workers decode and keep: JPEG images, who decoded them and how much of them, their seek
// entries, and what cache stages keep.
#include <map>
#include <utility>

#include "server/metrics/enum_label.h"
#include "server/metrics/metric_groups.h"

namespace bulkhead {
namespace {

using prometheus::MetricType;

void ReadFiles(const StatusView& view, Series& series) {
  std::map<int, uint64_t> counts;
  for (const v1::JpegDecodes::Files& files : view.status().jpeg().files()) {
    counts[files.decoder()] += files.count();
  }
  // All reasons from the start: a rate needs the zero before the first.
  for (const auto& [decoder, name] : EnumLabels(*v1::JpegDecoder_descriptor(), "JPEG_DECODER_")) {
    series.Add({name}, static_cast<double>(counts[decoder]));
  }
}

template <typename Value>
auto Jpeg(Value value) {
  return [value](const StatusView& view, Series& series) {
    series.Add(static_cast<double>(value(view.status().jpeg())));
  };
}

template <typename Value>
auto Kept(Value value) {
  return [value](const StatusView& view, Series& series) {
    series.Add(static_cast<double>(value(view.status().kept())));
  };
}

template <typename Value>
auto StageCache(Value value) {
  return [value](const StatusView& view, Series& series) {
    series.Add(static_cast<double>(value(view.status().stage_cache())));
  };
}

template <typename Value>
auto SeekCache(Value value) {
  return [value](const StatusView& view, Series& series) {
    series.Add(static_cast<double>(value(view.status().seek_cache())));
  };
}

}  // namespace

std::vector<Metric> JpegMetrics() {
  return {
      {"bulkhead_jpeg_files_total",
       MetricType::Counter,
       "",
       {"decoder"},
       "JPEG files decoded, by our own decoder (own) or by libjpeg-turbo, for the reason that the "
       "label says.",
       ReadFiles},
      {"bulkhead_jpeg_crops_total",
       MetricType::Counter,
       "",
       {},
       "JPEG files of which our own decoder decoded a rectangle.",
       Jpeg([](const auto& jpeg) { return jpeg.crops(); })},
      {"bulkhead_jpeg_seek_entries_found_total",
       MetricType::Counter,
       "",
       {},
       "Of these, decoded by seek entries that were known.",
       Jpeg([](const auto& jpeg) { return jpeg.entries_found(); })},
      {"bulkhead_jpeg_seek_entries_made_total",
       MetricType::Counter,
       "",
       {},
       "JPEG files whose seek entries were made in passing.",
       Jpeg([](const auto& jpeg) { return jpeg.entries_made(); })},
      {"bulkhead_jpeg_mcus_total",
       MetricType::Counter,
       "",
       {},
       "MCUs of the files that our own decoder decoded.",
       Jpeg([](const auto& jpeg) { return jpeg.mcus(); })},
      {"bulkhead_jpeg_mcus_read_total",
       MetricType::Counter,
       "",
       {},
       "Of these MCUs, those whose data was read; the others were left out.",
       Jpeg([](const auto& jpeg) { return jpeg.mcus_read(); })},
      {"bulkhead_seek_cache_bytes",
       MetricType::Gauge,
       "bytes",
       {},
       "Disk that the segments of seek entries take.",
       SeekCache([](const auto& cache) { return cache.bytes(); })},
      {"bulkhead_cache_found_total",
       MetricType::Counter,
       "",
       {},
       "Samples for which a cache stage had what stands before it.",
       Kept([](const auto& kept) { return kept.found(); })},
      {"bulkhead_cache_added_total",
       MetricType::Counter,
       "",
       {},
       "Samples for which it had not, and has now.",
       Kept([](const auto& kept) { return kept.added(); })},
      {"bulkhead_cache_bytes",
       MetricType::Gauge,
       "bytes",
       {},
       "Disk that the segments of cache stages take.",
       StageCache([](const auto& cache) { return cache.bytes(); })},
      {"bulkhead_cache_limit_bytes",
       MetricType::Gauge,
       "bytes",
       {},
       "What they may take; 0: nothing is kept.",
       StageCache([](const auto& cache) { return cache.most_bytes(); })},
      {"bulkhead_seek_cache_limit_bytes",
       MetricType::Gauge,
       "bytes",
       {},
       "What they may take; 0: none are kept.",
       SeekCache([](const auto& cache) { return cache.most_bytes(); })},
  };
}

}  // namespace bulkhead
