#include "tools/explain/explain_report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "server/base/byte_size.h"
#include "tools/common/machine.h"
#include "tools/common/text_table.h"

namespace bulkhead::tools {
namespace {

std::string Milliseconds(double seconds) { return absl::StrFormat("%.3f ms", seconds * 1e3); }

// What a sample takes; a dash where it is not known.
std::string SampleSize(const ExplainedFeature& feature) {
  if (feature.sample_bytes > 0) return FormatBytes(feature.sample_bytes);
  if (feature.seen.samples == 0) return "-";
  return absl::StrCat("mean ", FormatBytes(feature.seen.mean_bytes()), ", most ",
                      FormatBytes(feature.seen.most_bytes));
}

std::string BatchSize(const ExplainedFeature& feature, uint64_t size) {
  const uint64_t bytes = feature.BatchBytes(size);
  if (bytes == 0) return "-";
  return absl::StrCat(feature.sample_bytes > 0 ? "" : "about ", FormatBytes(bytes));
}

// The spec's own batch size, and the others that were asked for.
std::vector<uint64_t> BatchSizes(const Explanation& explanation) {
  std::vector<uint64_t> sizes = {explanation.batch_size};
  for (const ExplainedBatch& batch : explanation.batches) {
    if (std::find(sizes.begin(), sizes.end(), batch.size) == sizes.end()) {
      sizes.push_back(batch.size);
    }
  }
  return sizes;
}

double Rate(double seconds) { return seconds > 0 ? 1 / seconds : 0; }

// What seek entries and a cache stage change; nothing where there is neither.
std::string AgainLine(const Explanation& explanation) {
  if (explanation.again_seconds == 0) return "";
  std::string text =
      absl::StrFormat("\n  from the second epoch  %s a sample, %.0f samples/s a thread",
                      Milliseconds(explanation.again_seconds), Rate(explanation.again_seconds));
  if (explanation.mcus_read_by_seek > 0) {
    absl::StrAppendFormat(&text,
                          ": seek entries, by which %.0f%%\n                         of the "
                          "images' MCUs are read, without them %.0f%%",
                          1e2 * explanation.mcus_read_by_seek, 1e2 * explanation.mcus_read);
  }
  if (explanation.kept_sample_bytes > 0) {
    absl::StrAppendFormat(
        &text,
        "%s the cache stage's values\n                         of %.0f%% of them, %s each; all "
        "samples' take %s of the service's disk",
        explanation.mcus_read_by_seek > 0 ? ";" : ":", 1e2 * explanation.kept_share,
        FormatBytes(explanation.kept_sample_bytes),
        FormatBytes(explanation.kept_sample_bytes * explanation.samples_per_epoch));
  }
  return text;
}

std::string StageTable(const Explanation& explanation) {
  const std::vector<uint64_t> sizes = BatchSizes(explanation);
  TextRow head = {"stage", "time", "share", "gives", "", "a sample"};
  for (const uint64_t size : sizes) head.push_back(absl::StrCat("batch of ", size));
  std::vector<TextRow> rows = {head};
  for (const ExplainedStage& stage : explanation.stages) {
    const double share = stage.seconds / std::max(1e-12, explanation.unfused_seconds);
    TextRow row(head.size());
    row[0] = stage.name;
    row[1] = stage.joined ? "with the above" : Milliseconds(stage.seconds);
    row[2] = stage.joined ? "" : absl::StrFormat("%.0f%%", 100 * share);
    for (const ExplainedFeature& feature : stage.gives) {
      row[3] = feature.name;
      row[4] = feature.what;
      row[5] = SampleSize(feature);
      for (size_t i = 0; i < sizes.size(); ++i) row[6 + i] = BatchSize(feature, sizes[i]);
      rows.push_back(std::move(row));
      row = TextRow(head.size());
    }
    if (stage.gives.empty()) rows.push_back(std::move(row));
  }
  std::vector<bool> right(head.size(), true);
  for (const size_t left : {0, 3, 4}) right[left] = false;
  return TextTable(rows, right);
}

// "arena: label, arena: path".
std::string NamesOf(const std::vector<ExplainedMemory>& parts) {
  return absl::StrJoin(parts, ", ", [](std::string* text, const ExplainedMemory& part) {
    absl::StrAppend(text, part.what);
  });
}

// "1.5MiB"; by both ways where they differ.
std::string Sizes(const ExplainedMemory& part) {
  if (part.shm_bytes == part.grpc_bytes) return FormatBytes(part.shm_bytes);
  return absl::StrCat(FormatBytes(part.shm_bytes), " (gRPC: ", FormatBytes(part.grpc_bytes), ")");
}

uint64_t ServiceBytes(const Explanation& explanation) {
  uint64_t bytes = 0;
  for (const ExplainedMemory& part : explanation.memory) {
    if (!part.of_client) bytes += part.shm_bytes;
  }
  return bytes;
}

std::string MemoryTable(const Explanation& explanation) {
  const RankedMemory ranked = RankMemory(explanation.memory);
  std::vector<TextRow> rows = {{"what", "over shared memory", "over gRPC", "how"}};
  const auto add = [&](const std::string& what, const ExplainedMemory& part,
                       const std::string& how) {
    rows.push_back({what, FormatBytes(part.shm_bytes), FormatBytes(part.grpc_bytes), how});
  };
  for (const ExplainedMemory& part : ranked.shown) add(part.what, part, part.how);
  if (!ranked.remaining.empty()) {
    const ExplainedMemory rest = SumOf(ranked.remaining);
    add(absl::StrCat("remaining ", ranked.remaining.size(), " with ", Sizes(rest)), rest,
        NamesOf(ranked.remaining));
  }
  add("together", ranked.together, "");
  const uint64_t service = ServiceBytes(explanation);
  const uint64_t budget = explanation.budget_bytes;
  const uint64_t left = budget > service ? budget - service : 0;
  rows.push_back({"left of the budget", FormatBytes(left), FormatBytes(left),
                  absl::StrCat("of ", FormatBytes(budget),
                               " on this machine, which the client's part does not touch")});
  const std::string table = TextTable(rows, {false, true, true, false});
  if (!explanation.refused.empty()) {
    return absl::StrCat(
        table, "  it does not fit, so the service refuses the stream: ", explanation.refused, "\n");
  }
  if (!explanation.not_expected.empty()) {
    return absl::StrCat(table,
                        "  expected of the service: not measured, because its stream ended: ",
                        explanation.not_expected, "\n");
  }
  return absl::StrCat(table, "  expected of the service: ", FormatBytes(explanation.expected_bytes),
                      ", with ", FormatBytes(explanation.worker_peak_bytes),
                      " a worker, the most that one was seen to hold here\n");
}

std::string BatchTable(const Explanation& explanation) {
  std::vector<TextRow> rows = {{"batch size", "a batch", "arena", "client over gRPC"}};
  for (const ExplainedBatch& batch : explanation.batches) {
    rows.push_back({absl::StrCat(batch.size), FormatBytes(batch.batch_bytes),
                    FormatBytes(batch.arena_bytes), FormatBytes(batch.client_grpc_bytes)});
  }
  return TextTable(rows, {true, true, true, true});
}

// What each order reads of object stores; nothing without any.
std::string ReadingTable(const Explanation& explanation) {
  if (!explanation.not_read.empty()) {
    return absl::StrCat("\nwhat is read of the object stores is not known: ", explanation.not_read,
                        "\n");
  }
  if (explanation.readings.empty()) return "";
  std::vector<TextRow> rows = {{"order", "a sample", "its record", "requests a sample", ""}};
  for (const ExplainedReading& reading : explanation.readings) {
    rows.push_back(
        {reading.order, FormatBytes(reading.sample_bytes), FormatBytes(reading.record_bytes),
         absl::StrFormat("%.3f", reading.sample_requests), reading.is_of_spec ? "the spec's" : ""});
  }
  return absl::StrCat(
      "\nread from the object stores, while the block cache has none of it; it is read in blocks "
      "of\n16 KiB, and ranges of blocks by one request\n",
      TextTable(rows, {false, true, true, true, false}));
}

JsonObject ReadingJson(const ExplainedReading& reading) {
  return JsonObject()
      .Add("order", reading.order)
      .Add("of_spec", reading.is_of_spec)
      .Add("sample_bytes", reading.sample_bytes)
      .Add("record_bytes", reading.record_bytes)
      .Add("sample_requests", reading.sample_requests);
}

JsonObject FeatureJson(const ExplainedFeature& feature) {
  JsonObject given;
  given.Add("name", feature.name)
      .Add("what", feature.what)
      .Add("sample_bytes", feature.sample_bytes);
  if (feature.sample_bytes > 0 || feature.seen.samples == 0) return given;
  return given.Add("mean_bytes", feature.seen.mean_bytes())
      .Add("most_bytes", feature.seen.most_bytes);
}

JsonObject StageJson(const ExplainedStage& stage) {
  return JsonObject()
      .Add("name", stage.name)
      .Add("seconds", stage.seconds)
      .Add("joined", stage.joined)
      .AddEach("gives", stage.gives, FeatureJson);
}

JsonObject MemoryJson(const ExplainedMemory& part) {
  return JsonObject()
      .Add("what", part.what)
      .Add("how", part.how)
      .Add("bytes", part.shm_bytes)
      .Add("grpc_bytes", part.grpc_bytes);
}

JsonObject BatchJson(const ExplainedBatch& batch, const std::vector<ExplainedStage>& stages) {
  std::vector<JsonObject> given;
  for (const ExplainedStage& stage : stages) {
    for (const ExplainedFeature& feature : stage.gives) {
      given.push_back(JsonObject()
                          .Add("stage", stage.name)
                          .Add("name", feature.name)
                          .Add("bytes", feature.BatchBytes(batch.size)));
    }
  }
  return JsonObject()
      .Add("size", batch.size)
      .Add("batch_bytes", batch.batch_bytes)
      .Add("arena_bytes", batch.arena_bytes)
      .Add("client_grpc_bytes", batch.client_grpc_bytes)
      .Add("gives", given);
}

// What a sample takes.
std::string TimeLines(const Explanation& explanation) {
  return absl::StrFormat(
      "  Bytes of a stage pass through: a thread has one sample at a time.\n\n"
      "  every stage by itself  %s a sample, %.0f samples/s a thread\n"
      "  as workers run it      %s a sample, %.0f samples/s a thread%s\n",
      Milliseconds(explanation.unfused_seconds), Rate(explanation.unfused_seconds),
      Milliseconds(explanation.fused_seconds), Rate(explanation.fused_seconds),
      AgainLine(explanation));
}

}  // namespace

std::string ExplanationText(const Explanation& explanation) {
  std::string text = absl::StrFormat(
      "%s: %d samples an epoch; %d of them measured on one thread of this machine\n\n%s%s\nmemory "
      "of the loader, largest first\n%s",
      explanation.spec, explanation.samples_per_epoch, explanation.measured_samples,
      StageTable(explanation), TimeLines(explanation), MemoryTable(explanation));
  if (!explanation.batches.empty()) {
    absl::StrAppend(&text, "\nother batch sizes\n", BatchTable(explanation));
  }
  absl::StrAppend(&text, ReadingTable(explanation));
  absl::StrAppend(&text, "\nNot the loader's: the model, its activations and gradients, and the ",
                  FormatBytes(explanation.batch_bytes),
                  " of each\nbatch that the trainer copies to its GPU or keeps.\n");
  return text;
}

JsonObject ExplanationJson(const Explanation& explanation) {
  const RankedMemory ranked = RankMemory(explanation.memory);
  const ExplainedMemory rest = SumOf(ranked.remaining);
  return JsonObject()
      .Add("samples_per_epoch", explanation.samples_per_epoch)
      .Add("batch_size", explanation.batch_size)
      .Add("batch_bytes", explanation.batch_bytes)
      .Add("measured_samples", explanation.measured_samples)
      .AddEach("stages", explanation.stages, StageJson)
      .Add("unfused_seconds", explanation.unfused_seconds)
      .Add("fused_seconds", explanation.fused_seconds)
      .Add("again_seconds", explanation.again_seconds)
      .Add("kept_sample_bytes", explanation.kept_sample_bytes)
      .Add("kept_share", explanation.kept_share)
      .Add("mcus_read", explanation.mcus_read)
      .Add("mcus_read_by_seek", explanation.mcus_read_by_seek)
      .AddEach("memory", ranked.shown, MemoryJson)
      .Add("memory_remaining", JsonObject()
                                   .Add("count", static_cast<uint64_t>(ranked.remaining.size()))
                                   .Add("bytes", rest.shm_bytes)
                                   .Add("grpc_bytes", rest.grpc_bytes)
                                   .AddEach("parts", ranked.remaining, MemoryJson))
      .Add("memory_together", JsonObject()
                                  .Add("bytes", ranked.together.shm_bytes)
                                  .Add("grpc_bytes", ranked.together.grpc_bytes))
      .Add("worker_peak_bytes", explanation.worker_peak_bytes)
      .Add("expected_bytes", explanation.expected_bytes)
      .Add("not_expected", explanation.not_expected)
      .Add("refused", explanation.refused)
      .Add("budget_bytes", explanation.budget_bytes)
      .AddEach("object_reads", explanation.readings, ReadingJson)
      .Add("not_read", explanation.not_read)
      .AddEach("batches", explanation.batches,
               [&](const ExplainedBatch& batch) { return BatchJson(batch, explanation.stages); })
      .Add("machine", DescribeMachine())
      .Add("data", explanation.spec)
      .Add("command", CommandLine());
}

}  // namespace bulkhead::tools
