#include "tools/explain/explain_report.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "server/base/byte_size.h"
#include "tools/common/machine.h"

namespace bulkhead::tools {
namespace {

using Row = std::vector<std::string>;

// Columns as wide as they need be; the first is on the left, those in `right` on the right.
std::string Table(const std::vector<Row>& rows, const std::vector<bool>& right) {
  std::vector<size_t> widths(right.size());
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const int width = static_cast<int>(widths[i]) * (right[i] ? 1 : -1);
      absl::StrAppendFormat(&line, "  %*s", width, row[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

std::string Milliseconds(double seconds) { return absl::StrFormat("%.3f ms", seconds * 1e3); }

// A dash where it is not known.
std::string SizeOrDash(uint64_t bytes) { return bytes == 0 ? "-" : FormatBytes(bytes); }

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
  std::vector<Row> rows = {{"stage", "gives", "", "a sample",
                            absl::StrCat("batch of ", explanation.batch_size), "time", "share"}};
  for (const ExplainedStage& stage : explanation.stages) {
    const double share = stage.seconds / std::max(1e-12, explanation.unfused_seconds);
    Row row = {stage.name,
               "",
               "",
               "",
               "",
               stage.joined ? "with the above" : Milliseconds(stage.seconds),
               stage.joined ? "" : absl::StrFormat("%.0f%%", 100 * share)};
    for (const ExplainedFeature& feature : stage.gives) {
      row[1] = feature.name;
      row[2] = feature.what;
      row[3] = SizeOrDash(feature.sample_bytes);
      row[4] = SizeOrDash(feature.sample_bytes * explanation.batch_size);
      rows.push_back(std::move(row));
      row = Row(7);
    }
    if (stage.gives.empty()) rows.push_back(std::move(row));
  }
  return Table(rows, {false, false, false, true, true, true, true});
}

std::string MemoryTable(const Explanation& explanation) {
  std::vector<ExplainedMemory> parts = explanation.memory;
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  std::vector<Row> rows;
  uint64_t sum = 0;
  for (const ExplainedMemory& part : parts) {
    rows.push_back({part.what, part.how, FormatBytes(part.bytes)});
    sum += part.bytes;
  }
  rows.push_back({"together", "", FormatBytes(sum)});
  const uint64_t left = explanation.budget_bytes > sum ? explanation.budget_bytes - sum : 0;
  rows.push_back({"left of the budget",
                  absl::StrCat("of ", FormatBytes(explanation.budget_bytes), " on this machine"),
                  FormatBytes(left)});
  return Table(rows, {false, false, true});
}

std::string BatchTable(const Explanation& explanation) {
  std::vector<Row> rows = {{"batch size", "a batch", "arena"}};
  for (const ExplainedBatch& batch : explanation.batches) {
    rows.push_back(
        {absl::StrCat(batch.size), FormatBytes(batch.batch_bytes), FormatBytes(batch.arena_bytes)});
  }
  return Table(rows, {true, true, true});
}

}  // namespace

std::string ExplanationText(const Explanation& explanation) {
  std::string text = absl::StrFormat(
      "%s: %d samples an epoch; %d of them measured on one thread of this machine\n\n%s\n"
      "  every stage by itself  %s a sample, %.0f samples/s a thread\n"
      "  as workers run it      %s a sample, %.0f samples/s a thread%s\n\n"
      "memory of the loader, largest first\n%s",
      explanation.spec, explanation.samples_per_epoch, explanation.measured_samples,
      StageTable(explanation), Milliseconds(explanation.unfused_seconds),
      Rate(explanation.unfused_seconds), Milliseconds(explanation.fused_seconds),
      Rate(explanation.fused_seconds), AgainLine(explanation), MemoryTable(explanation));
  if (!explanation.batches.empty()) {
    absl::StrAppend(&text, "\nother batch sizes\n", BatchTable(explanation));
  }
  absl::StrAppend(&text, "\nNot the loader's: the model, its activations and gradients, and the ",
                  FormatBytes(explanation.batch_bytes),
                  " of each\nbatch that the trainer copies to its GPU or keeps.\n");
  return text;
}

JsonObject ExplanationJson(const Explanation& explanation) {
  std::vector<JsonObject> stages;
  for (const ExplainedStage& stage : explanation.stages) {
    std::vector<JsonObject> gives;
    for (const ExplainedFeature& feature : stage.gives) {
      gives.push_back(JsonObject()
                          .Add("name", feature.name)
                          .Add("what", feature.what)
                          .Add("sample_bytes", feature.sample_bytes));
    }
    stages.push_back(JsonObject()
                         .Add("name", stage.name)
                         .Add("seconds", stage.seconds)
                         .Add("joined", stage.joined)
                         .Add("gives", gives));
  }
  std::vector<JsonObject> memory;
  for (const ExplainedMemory& part : explanation.memory) {
    memory.push_back(
        JsonObject().Add("what", part.what).Add("how", part.how).Add("bytes", part.bytes));
  }
  std::vector<JsonObject> batches;
  for (const ExplainedBatch& batch : explanation.batches) {
    batches.push_back(JsonObject()
                          .Add("size", batch.size)
                          .Add("batch_bytes", batch.batch_bytes)
                          .Add("arena_bytes", batch.arena_bytes));
  }
  return JsonObject()
      .Add("samples_per_epoch", explanation.samples_per_epoch)
      .Add("batch_size", explanation.batch_size)
      .Add("batch_bytes", explanation.batch_bytes)
      .Add("measured_samples", explanation.measured_samples)
      .Add("stages", stages)
      .Add("unfused_seconds", explanation.unfused_seconds)
      .Add("fused_seconds", explanation.fused_seconds)
      .Add("again_seconds", explanation.again_seconds)
      .Add("kept_sample_bytes", explanation.kept_sample_bytes)
      .Add("kept_share", explanation.kept_share)
      .Add("mcus_read", explanation.mcus_read)
      .Add("mcus_read_by_seek", explanation.mcus_read_by_seek)
      .Add("memory", memory)
      .Add("budget_bytes", explanation.budget_bytes)
      .Add("batches", batches)
      .Add("machine", DescribeMachine())
      .Add("data", explanation.spec)
      .Add("command", CommandLine());
}

}  // namespace bulkhead::tools
