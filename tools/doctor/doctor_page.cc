#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/base/byte_size.h"
#include "tools/common/machine.h"
#include "tools/doctor/curve_chart.h"
#include "tools/doctor/doctor_report.h"

namespace bulkhead::tools {
namespace {

constexpr char kPageHead[] = R"(<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root { color-scheme: light dark;
  --ground: #f6f7f9; --card: #fff; --text: #1c2430; --faint: #65707f; --line: #dde2e9; --bad: #c0352b;
  --c0: #2563c9; --c1: #d2691e; --c2: #1a8f7a; --c3: #8a4fc4; --c4: #b8860b; --c5: #c2407f; --c6: #4a6a8a; }
@media (prefers-color-scheme: dark) { :root {
  --ground: #12161c; --card: #1b212a; --text: #e4e8ee; --faint: #97a2b1; --line: #303947; --bad: #ff7b72;
  --c0: #6ea8ff; --c1: #ff9d5c; --c2: #4fd1b5; --c3: #c297ff; --c4: #e8c15a; --c5: #ff8cc0; --c6: #9dbbd8; } }
body { margin: 0 auto; padding: 16px; max-width: 1100px; background: var(--ground); color: var(--text);
  font: 14px/1.45 system-ui, sans-serif; }
h1 { font-size: 20px; margin: 0; } h2 { font-size: 15px; margin: 22px 0 8px; }
.faint { color: var(--faint); } .bad { color: var(--bad); font-weight: 600; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 12px 14px; margin: 0 0 10px;
  overflow-x: auto; }
table { border-collapse: collapse; } td, th { text-align: left; padding: 2px 16px 2px 0; white-space: nowrap; }
th { color: var(--faint); font-weight: 400; } td:nth-child(2), td:nth-child(3) { font-variant-numeric: tabular-nums; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(340px, 1fr)); gap: 14px; }
figure { margin: 0; } figcaption { color: var(--faint); } svg { display: block; width: 100%; }
svg text { fill: var(--faint); font-size: 11px; } .grid { stroke: var(--line); }
polyline { fill: none; stroke-width: 1.8; } .key { color: var(--faint); font-size: 12px; }
.key span { margin-right: 14px; } .key i { display: inline-block; width: 10px; height: 3px; margin-right: 5px; vertical-align: middle; }
</style>
)";

std::string MemoryNumber(double bytes) {
  return FormatBytes(static_cast<uint64_t>(std::llround(std::max(0.0, bytes))));
}

std::string TimeNumber(double seconds) { return absl::StrFormat("%.3g ms", seconds * 1e3); }

std::string Table(const std::vector<DoctorRow>& rows) {
  std::string table =
      "<div class=\"card\"><table>\n"
      "<tr><th></th><th>time a sample</th><th>kept a sample</th><th>verdict</th><th></th></tr>\n";
  for (const DoctorRow& row : rows) {
    absl::StrAppend(&table, "<tr><td>", Escaped(row.name), "</td><td>", Escaped(row.time),
                    "</td><td>", Escaped(row.kept), "</td><td", row.marked ? " class=\"bad\"" : "",
                    ">", Escaped(row.word), "</td><td class=\"faint\">", Escaped(row.note),
                    "</td></tr>\n");
  }
  return table + "</table></div>\n";
}

// Of a run, on the page.
std::string TitleOf(const DoctorRun& run) {
  return run.kind == DoctorRun::Kind::kAlone ? absl::StrCat(run.title, ", alone") : run.title;
}

// By name, in the order of the judged stages, what each look shows.
std::vector<Curve> StageCurves(const DoctorRun& run, double (*value)(const StageCounters& before,
                                                                     const StageCounters& now)) {
  std::vector<Curve> curves;
  for (const JudgedStage& stage : run.judged.stages) {
    Curve& curve = curves.emplace_back();
    curve.name = stage.name;
    double samples = 0;  // of the workers before
    for (const WorkerLooks& worker : run.trial.workers) {
      StageCounters before;
      for (const TrialLook& look : worker.looks) {
        const auto found = look.stages.find(stage.name);
        if (found == look.stages.end() || found->second.runs < before.runs) continue;
        const double height = value(before, found->second);
        if (height >= 0) {
          curve.points.emplace_back(samples + static_cast<double>(look.samples), height);
        }
        before = found->second;
      }
      samples += static_cast<double>(worker.samples());
    }
  }
  return curves;
}

std::string Charts(const DoctorRun& run) {
  std::vector<Curve> memory = StageCurves(
      run, [](const StageCounters&, const StageCounters& now) { return 1.0 * now.live_bytes; });
  Curve& process = memory.emplace_back();
  process.name = "the worker's process";
  process.dashed = true;
  double samples = 0;
  for (const WorkerLooks& worker : run.trial.workers) {
    for (const TrialLook& look : worker.looks) {
      process.points.emplace_back(samples + static_cast<double>(look.samples),
                                  static_cast<double>(look.memory_bytes));
    }
    samples += static_cast<double>(worker.samples());
  }
  const std::vector<Curve> times = StageCurves(run, [](const StageCounters& before,
                                                       const StageCounters& now) {
    // The first look is of the start.
    if (before.runs == 0 || now.runs == before.runs) return -1.0;
    return (now.busy_seconds - before.busy_seconds) / static_cast<double>(now.runs - before.runs);
  });
  return absl::StrCat("<div class=\"charts\">", CurveChart("Memory", memory, MemoryNumber),
                      CurveChart("Time a sample", times, TimeNumber), "</div>\n");
}

}  // namespace

std::string DoctorPage(const Diagnosis& diagnosis) {
  std::string page = absl::StrCat(kPageHead, "<title>bulkhead doctor: ", Escaped(diagnosis.spec),
                                  "</title>\n<h1>", Escaped(diagnosis.spec),
                                  "</h1>\n<p class=\"faint\">", Escaped(diagnosis.Setting()), "; ",
                                  Escaped(CommandLine()), "</p>\n<div class=\"card\">");
  for (const std::string& sentence : Conclusions(diagnosis)) {
    absl::StrAppend(&page, "<div", diagnosis.ExitCode() == 0 ? "" : " class=\"bad\"", ">",
                    Escaped(sentence), ".</div>\n");
  }
  std::vector<DoctorRow> others;
  for (size_t i = 1; i < diagnosis.runs.size(); ++i) {
    DoctorRow& row = others.emplace_back(RunRow(diagnosis.runs[i]));
    row.name = TitleOf(diagnosis.runs[i]);
    if (!diagnosis.runs[i].ran) row.word = diagnosis.runs[i].Word();
  }
  absl::StrAppend(&page, "</div>\n<h2>The whole spec, by stage</h2>\n", Table(StageRows(diagnosis)),
                  "<h2>The worker of other runs</h2>\n", Table(others));
  for (const DoctorRun& run : diagnosis.runs) {
    if (!run.ran) continue;
    absl::StrAppend(&page, "<h2>", Escaped(TitleOf(run)), "</h2>\n<div class=\"card\">",
                    Charts(run), "</div>\n");
  }
  return page;
}

}  // namespace bulkhead::tools
