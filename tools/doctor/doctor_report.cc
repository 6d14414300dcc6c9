#include "tools/doctor/doctor_report.h"

#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/common/colour.h"
#include "tools/common/machine.h"

namespace bulkhead::tools {
namespace {

using Kind = DoctorRun::Kind;

struct ReportRow {
  std::string name, time, kept, word, note;
  bool marked = false;
};

// Characters of UTF-8.
size_t Width(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
  }));
}

void Pad(std::string& text, size_t width) {
  text.append(width - std::min(width, Width(text)), ' ');
}

std::string ReportTable(std::vector<ReportRow> rows) {
  size_t name = 0, time = 0, kept = 0, word = 0;
  for (const ReportRow& row : rows) {
    name = std::max(name, Width(row.name));
    time = std::max(time, Width(row.time));
    kept = std::max(kept, Width(row.kept));
    word = std::max(word, Width(row.word));
  }
  std::string text;
  for (ReportRow& row : rows) {
    Pad(row.name, name + 2);
    Pad(row.time, time + 2);
    Pad(row.kept, kept + 2);
    if (!row.note.empty()) Pad(row.word, word + 2);
    if (row.marked) row.word = Coloured(row.word, Colour::kRed, stdout);
    std::string line = absl::StrCat("  ", row.name, row.time, row.kept, row.word, row.note);
    absl::StripTrailingAsciiWhitespace(&line);
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

ReportRow ReportRowOf(const Diagnosis& diagnosis, const JudgedStage& stage) {
  return {diagnosis.Named(stage.name, "all of the worker"),
          TimeText(stage.time),
          KeptText(stage),
          absl::AsciiStrToUpper(stage.Word()),
          "",
          stage.IsFault()};
}

ReportRow ReportRowOf(const DoctorRun& run) {
  return {run.title,
          run.ran ? TimeText(run.judged.process.time) : "",
          run.ran ? KeptText(run.judged.process) : "",
          run.ran ? absl::AsciiStrToUpper(run.Word()) : "-",
          run.note,
          run.IsFault()};
}

std::string KindName(Kind kind) {
  switch (kind) {
    case Kind::kPrefix:
      return "prefix";
    case Kind::kAlone:
      return "alone";
    default:
      return "whole";
  }
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
      .Add("kind", KindName(run.kind))
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

std::string TimeText(const TimeTrend& time) {
  if (time.first_seconds == 0 && time.last_seconds == 0) return "";
  if (!time.slows) return absl::StrFormat("%.3g ms", time.last_seconds * 1e3);
  return absl::StrFormat("%.3g → %.3g ms", time.first_seconds * 1e3, time.last_seconds * 1e3);
}

std::string KeptText(const JudgedStage& stage) {
  if (stage.memory == v1::VERDICT_KIND_WARM_UP) return "";
  return absl::StrCat(SignedBytes(stage.kept_bytes), " ± ", SignedBytes(stage.bound_bytes));
}

std::string DiagnosisText(const Diagnosis& diagnosis) {
  const DoctorRun& whole = diagnosis.runs[0];
  std::string text = absl::StrCat(diagnosis.spec, ": ", diagnosis.Setting(), "\n\n");
  std::vector<ReportRow> rows = {{"The whole spec", "time a sample", "kept a sample", "verdict"}};
  for (const JudgedStage& stage : whole.judged.stages)
    rows.push_back(ReportRowOf(diagnosis, stage));
  for (const std::string& stage : diagnosis.joined) rows.push_back({stage, "", "", "-", kJoined});
  rows.push_back(ReportRowOf(diagnosis, whole.judged.process));
  if (!whole.trial.error.ok()) rows.back().word = absl::AsciiStrToUpper(whole.Word());
  rows.back().marked |= whole.IsFault();
  for (const Kind kind : {Kind::kPrefix, Kind::kAlone}) {
    const size_t before = rows.size();
    for (const DoctorRun& run : diagnosis.runs) {
      if (run.kind == kind) rows.push_back(ReportRowOf(run));
    }
    if (rows.size() == before) continue;
    const char* const title =
        kind == Kind::kPrefix ? "The worker of shorter specs" : "The worker of a single stage";
    rows.insert(rows.begin() + static_cast<std::ptrdiff_t>(before),
                {ReportRow{}, ReportRow{title}});
  }
  absl::StrAppend(&text, ReportTable(std::move(rows)), "\n");
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
