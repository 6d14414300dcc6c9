// What workers decode and keep: JPEG images, who decoded them and how much of them, their seek
// entries, and what cache stages keep.
#include <map>

#include "server/metrics/metric_groups.h"

namespace bulkhead {
namespace {

void ReadFiles(const StatusView& view, Series& series) {
  std::map<v1::JpegDecoder, uint64_t> counts;
  for (const v1::JpegDecodes::Files& files : view.status.jpeg().files()) {
    counts[files.decoder()] += files.count();
  }
  AddCounts(counts, "JPEG_DECODER_", series);
}

}  // namespace

std::vector<Metric> DecodeMetrics() {
  return {
      {"bulkhead_jpeg_files_total",
       "JPEG files decoded, by our own decoder (own) or by libjpeg-turbo, for the reason that the "
       "label says.",
       ReadFiles,
       {"decoder"}},
      {"bulkhead_jpeg_crops_total", "JPEG files of which our own decoder decoded a rectangle.",
       Number([](const auto& status) { return status.jpeg().crops(); })},
      {"bulkhead_jpeg_seek_entries_found_total",
       "JPEG files of which a rectangle was decoded by known seek entries.",
       Number([](const auto& status) { return status.jpeg().entries_found(); })},
      {"bulkhead_jpeg_seek_entries_made_total",
       "JPEG files whose seek entries were made while they were decoded.",
       Number([](const auto& status) { return status.jpeg().entries_made(); })},
      {"bulkhead_jpeg_coefficients_found_total",
       "JPEG files that were decoded by their known coefficients, whole or in part.",
       Number([](const auto& status) { return status.jpeg().coefficients_found(); })},
      {"bulkhead_jpeg_coefficients_made_total",
       "JPEG files whose coefficients were kept while they were decoded.",
       Number([](const auto& status) { return status.jpeg().coefficients_made(); })},
      {"bulkhead_jpeg_files_unread_total",
       "JPEG files that were decoded by their known coefficients without being read.",
       Number([](const auto& status) { return status.jpeg().files_unread(); })},
      {"bulkhead_jpeg_mcus_total", "MCUs of the files that our own decoder decoded.",
       Number([](const auto& status) { return status.jpeg().mcus(); })},
      {"bulkhead_jpeg_mcus_read_total",
       "MCUs whose data was read; our own decoder skipped the others.",
       Number([](const auto& status) { return status.jpeg().mcus_read(); })},
      {"bulkhead_seek_cache_bytes", "Disk space of the segments of seek entries.",
       Number([](const auto& status) { return status.seek_cache().bytes(); })},
      {"bulkhead_seek_cache_limit_bytes",
       "Limit of bulkhead_seek_cache_bytes; 0: no seek entries are kept.",
       Number([](const auto& status) { return status.seek_cache().most_bytes(); })},
      {"bulkhead_coefficient_cache_bytes", "Disk space of the segments of coefficients.",
       Number([](const auto& status) { return status.coefficient_cache().bytes(); })},
      {"bulkhead_coefficient_cache_limit_bytes",
       "Limit of bulkhead_coefficient_cache_bytes; 0: no coefficients are kept.",
       Number([](const auto& status) { return status.coefficient_cache().most_bytes(); })},
      {"bulkhead_object_requests_total", "Requests to object stores.",
       Number([](const auto& status) { return status.object_reads().requests(); })},
      {"bulkhead_object_retries_total", "Requests to object stores that repeat one that failed.",
       Number([](const auto& status) { return status.object_reads().retries(); })},
      {"bulkhead_object_hedges_total", "Requests to object stores that repeat one that was slow.",
       Number([](const auto& status) { return status.object_reads().hedges(); })},
      {"bulkhead_object_fetched_bytes_total", "Bytes read from object stores.",
       Number([](const auto& status) { return status.object_reads().bytes_fetched(); })},
      {"bulkhead_object_fetcher_restarts_total",
       "Times that bulkhead-fetch, which reads object stores, ended and was started again.",
       Number([](const auto& status) { return status.object_reads().restarts(); })},
      {"bulkhead_block_cache_bytes", "Disk space of the block cache: data read from object stores.",
       Number([](const auto& status) { return status.object_reads().cached_bytes(); })},
      {"bulkhead_block_cache_limit_bytes",
       "Limit of bulkhead_block_cache_bytes; 0: the cache is off, or no store was read yet.",
       Number([](const auto& status) { return status.object_reads().most_cached_bytes(); })},
      {"bulkhead_block_spare_bytes",
       "Data read from object stores that found no room in the block cache, kept until its "
       "batches are made.",
       Number([](const auto& status) { return status.object_reads().spare_bytes(); })},
      {"bulkhead_cache_found_total", "Samples whose result a cache stage had.",
       Number([](const auto& status) { return status.kept().found(); })},
      {"bulkhead_cache_added_total", "Samples whose result a cache stage did not have, and added.",
       Number([](const auto& status) { return status.kept().added(); })},
      {"bulkhead_cache_bytes", "Disk space of the segments of cache stages.",
       Number([](const auto& status) { return status.stage_cache().bytes(); })},
      {"bulkhead_cache_limit_bytes", "Limit of bulkhead_cache_bytes; 0: nothing is kept.",
       Number([](const auto& status) { return status.stage_cache().most_bytes(); })},
  };
}

}  // namespace bulkhead
