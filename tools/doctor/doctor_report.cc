#include "tools/doctor/doctor_report.h"

#include <cstdio>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/common/colour.h"
#include "tools/common/machine.h"
#include "tools/common/text_table.h"

namespace bulkhead::tools {
namespace {

using Kind = DoctorRun::Kind;

constexpr const char* kKindNames[] = {"whole", "prefix", "alone"};  // by Kind

// "0.31 ms", "0.31 → 0.95 ms" where it changed; empty: not known.
std::string TimeText(const TimeTrend& time) {
  if (time.first_seconds == 0 && time.last_seconds == 0) return "";
  if (!time.slows) return absl::StrFormat("%.3g ms", time.last_seconds * 1e3);
  return absl::StrFormat("%.3g → %.3g ms", time.first_seconds * 1e3, time.last_seconds * 1e3);
}

// "24KiB ± 12B"; empty: not known.
std::string KeptText(const JudgedStage& stage) {
  if (stage.memory == v1::VERDICT_KIND_WARM_UP) return "";
  return absl::StrCat(SignedBytes(stage.kept_bytes), " ± ", SignedBytes(stage.bound_bytes));
}

TextRow TextRowOf(const DoctorRow& row) {
  const std::string word = absl::AsciiStrToUpper(row.word);
  return {row.name, row.time, row.kept, row.marked ? Coloured(word, Colour::kRed, stdout) : word,
          row.note};
}

JsonObject JudgedJson(const Diagnosis& diagnosis, const JudgedStage& stage) {
  const auto code = diagnosis.code.find(stage.name);
  return JsonObject()
      .Add("stage", stage.name)
      .Add("code", code == diagnosis.code.end() ? "" : code->second)
      .Add("verdict", stage.Word())
      .Add("kept_bytes_per_sample", stage.kept_bytes)
      .Add("bound_bytes", stage.bound_bytes)
      .Add("first_seconds", stage.time.first_seconds)
      .Add("last_seconds", stage.time.last_seconds)
      .Add("slows", stage.time.slows)
      .Add("deaths", stage.deaths);
}

JsonObject RunJson(const Diagnosis& diagnosis, const DoctorRun& run) {
  const auto judged = [&](const JudgedStage& stage) { return JudgedJson(diagnosis, stage); };
  return JsonObject()
      .Add("kind", kKindNames[static_cast<size_t>(run.kind)])
      .Add("title", run.title)
      .Add("stage", run.stage)
      .Add("ran", run.ran)
      .Add("note", run.note)
      .Add("verdict", run.Word())
      .Add("samples", run.judged.samples)
      .AddEach("stages", run.judged.stages, judged)
      .Add("worker", judged(run.judged.process))
      .AddEach("deaths", run.trial.deaths,
               [](const TrialDeath& death) {
                 return JsonObject()
                     .Add("reason", death.reason)
                     .Add("stage", death.stage)
                     .Add("sample", death.sample)
                     .Add("over_quota", death.over_quota);
               })
      .Add("error", run.Error())
      .Add("substituted", run.trial.substituted);
}

}  // namespace

std::vector<DoctorRow> StageRows(const Diagnosis& diagnosis) {
  const DoctorRun& whole = diagnosis.runs[0];
  std::vector<DoctorRow> rows;
  const auto add = [&](const JudgedStage& stage) {
    rows.push_back({diagnosis.Named(stage.name, "all of the worker"), TimeText(stage.time),
                    KeptText(stage), stage.Word(), "", stage.IsFault()});
  };
  for (const JudgedStage& stage : whole.judged.stages) add(stage);
  for (const std::string& stage : diagnosis.joined) {
    rows.push_back({stage, "", "", "-", "in one pass with the stage before it"});
  }
  add(whole.judged.process);
  if (!whole.trial.error.ok()) {
    rows.back().word = whole.Word();
    rows.back().marked = true;
  }
  return rows;
}

DoctorRow RunRow(const DoctorRun& run) {
  const JudgedStage& process = run.judged.process;
  if (!run.ran) return {run.title, "", "", "-", run.note};
  return {run.title, TimeText(process.time), KeptText(process), run.Word(),
          run.note,  run.IsFault()};
}

std::string DiagnosisText(const Diagnosis& diagnosis) {
  std::vector<TextRow> rows = {{"The whole spec", "time a sample", "kept a sample", "verdict"}};
  std::vector<DoctorRow> stages = StageRows(diagnosis);
  stages.back().marked |= diagnosis.runs[0].IsFault();
  for (const DoctorRow& stage : stages) rows.push_back(TextRowOf(stage));
  for (const Kind kind : {Kind::kPrefix, Kind::kAlone}) {
    const size_t before = rows.size();
    for (const DoctorRun& run : diagnosis.runs) {
      if (run.kind == kind) rows.push_back(TextRowOf(RunRow(run)));
    }
    if (rows.size() == before) continue;
    const char* const title =
        kind == Kind::kPrefix ? "The worker of shorter specs" : "The worker of a single stage";
    rows.insert(rows.begin() + static_cast<std::ptrdiff_t>(before), {TextRow{}, TextRow{title}});
  }
  std::string text =
      absl::StrCat(diagnosis.spec, ": ", diagnosis.Setting(), "\n\n", TextTable(rows), "\n");
  for (const std::string& sentence : Conclusions(diagnosis)) {
    absl::StrAppend(&text, Coloured(sentence + ".", Colour::kBold, stdout), "\n");
  }
  return text;
}

JsonObject DiagnosisJson(const Diagnosis& diagnosis) {
  return JsonObject()
      .Add("found", diagnosis.ExitCode() != 0)
      .Add("conclusions", Conclusions(diagnosis))
      .Add("samples", diagnosis.samples)
      .Add("joined", diagnosis.joined)
      .AddEach("runs", diagnosis.runs,
               [&](const DoctorRun& run) { return RunJson(diagnosis, run); })
      .Add("machine", DescribeMachine())
      .Add("data", diagnosis.spec)
      .Add("command", CommandLine());
}

}  // namespace bulkhead::tools
