#include "tools/purity/purity_report.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace bulkhead::tools {
namespace {

// The first stage that differs; absent when all is the same.
std::optional<std::string> FirstDifference(const StageTrace& one, const StageTrace& other) {
  const size_t common = std::min(one.stages.size(), other.stages.size());
  for (size_t i = 0; i < common; ++i) {
    if (one.stages[i] != other.stages[i]) return one.stages[i].first;
  }
  // Where one run failed the other knows what stage it was.
  for (const StageTrace* longer : {&one, &other}) {
    if (longer->stages.size() > common) return longer->stages[common].first;
  }
  if (one.error == other.error) return std::nullopt;
  return common == 0 ? "source" : "what failed behind " + one.stages[common - 1].first;
}

void Blame(const std::string& stage, std::string example, PurityReport& report) {
  auto known = std::ranges::find(report.impure, stage, &ImpureStage::stage);
  if (known == report.impure.end()) known = report.impure.insert(known, {stage, 0, {}});
  ++known->samples;
  if (known->examples.size() < ImpureStage::kExamples) {
    known->examples.push_back(std::move(example));
  }
}

void NoteFailure(const std::string& where, const StageTrace& trace, PurityReport& report) {
  if (report.failure.empty()) report.failure = absl::StrCat(where, ": ", trace.error);
}

}  // namespace

PurityReport ComparePasses(const PurityTrace& one, const PurityTrace& other, uint64_t batch_size) {
  PurityReport report;
  std::vector<bool> differs(one.samples.size());
  uint64_t number = 0;
  for (const auto& [position, trace] : one.samples) {
    const uint64_t own = number++;
    ++report.samples;
    const auto twin = other.samples.find(position);
    const auto stage =
        FirstDifference(trace, twin == other.samples.end() ? StageTrace{} : twin->second);
    if (stage.has_value()) {
      differs[own] = true;
      const std::string& error =
          trace.error.empty() && twin != other.samples.end() ? twin->second.error : trace.error;
      Blame(*stage,
            absl::StrCat("position ", position, ": ", trace.record,
                         error.empty() ? "" : absl::StrCat(", which failed in one run: ", error)),
            report);
    } else if (!trace.error.empty()) {
      ++report.failed;
      NoteFailure(absl::StrCat("position ", position, ": ", trace.record), trace, report);
    }
  }
  for (uint64_t first = 0; first < number && !(one.batches.empty() && other.batches.empty());
       first += batch_size) {
    const uint64_t end = std::min(number, first + batch_size);
    const auto trace = one.batches.find(first);
    const auto twin = other.batches.find(first);
    if (trace == one.batches.end() || twin == other.batches.end() ||
        std::find(differs.begin() + static_cast<int64_t>(first),
                  differs.begin() + static_cast<int64_t>(end),
                  true) != differs.begin() + static_cast<int64_t>(end)) {
      ++report.skipped_batches;
      continue;
    }
    ++report.batches;
    if (const auto stage = FirstDifference(trace->second, twin->second); stage.has_value()) {
      Blame(*stage, trace->second.record, report);
    } else if (!trace->second.error.empty()) {
      ++report.failed_batches;
      NoteFailure(trace->second.record, trace->second, report);
    }
  }
  return report;
}

std::string PurityText(const std::string& file, const PurityReport& report) {
  std::string text;
  const std::string what =
      absl::StrCat(report.samples, report.samples == 1 ? " sample" : " samples",
                   report.batches == 0   ? ""
                   : report.batches == 1 ? " and 1 batch"
                                         : absl::StrCat(" and ", report.batches, " batches"));
  if (report.proves_nothing()) {
    const bool samples = report.failed == report.samples;
    absl::StrAppend(&text, file, ": not shown to be pure: none of ",
                    samples ? report.samples : report.batches, samples ? " samples" : " batches",
                    " could be produced, for the same reason both times:\n  ", report.failure,
                    "\n  Mend that, and run this again.\n");
  } else if (report.impure.empty()) {
    text = absl::StrCat(file, ": pure: ", what,
                        ", made twice, in two processes and in opposite orders, came out the "
                        "same\n");
  }
  for (const ImpureStage& impure : report.impure) {
    absl::StrAppend(&text, file, ": ", impure.stage, " is impure: of ", what, ", ", impure.samples,
                    " came out differently the second time, in another process and in the "
                    "opposite order:\n  ",
                    absl::StrJoin(impure.examples, "\n  "), "\n");
  }
  if (!report.impure.empty()) {
    absl::StrAppend(&text,
                    "  What a stage gives may depend on its inputs, its arguments and its `rng` "
                    "alone: not on time, on the process, or on samples that came before.\n");
  }
  if (report.failed + report.failed_batches > 0 && !report.proves_nothing()) {
    absl::StrAppend(&text, "  ", report.failed + report.failed_batches,
                    " of them could not be produced, for the same reason both times, the first "
                    "one ",
                    report.failure, "\n");
  }
  if (report.skipped_batches > 0) {
    absl::StrAppend(&text, "  ", report.skipped_batches,
                    " batches were not compared, because samples of theirs failed or differ\n");
  }
  return text;
}

}  // namespace bulkhead::tools
