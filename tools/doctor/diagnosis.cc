#include "tools/doctor/diagnosis.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cpp/internal/service/embedded_options.h"
#include "server/base/byte_size.h"
#include "server/supervisor/verdict/growth_kind.h"
#include "tools/common/count_text.h"
#include "tools/common/service_options.h"

namespace bulkhead::tools {
namespace {

using Kind = DoctorRun::Kind;

bool Crashed(const DoctorRun& run) {
  return std::ranges::find(run.trial.deaths, false, &TrialDeath::over_quota) !=
         run.trial.deaths.end();
}

// Where else than in `seen` the same was seen: "; so it does alone".
std::string Elsewhere(const Diagnosis& diagnosis, const DoctorRun& seen, const std::string& stage,
                      bool (*shows)(const JudgedStage&)) {
  std::string text;
  if (seen.kind == Kind::kAlone) return text;
  for (const DoctorRun& run : diagnosis.runs) {
    if (run.kind != Kind::kAlone || run.stage != stage || !run.ran) continue;
    const bool alone = std::ranges::any_of(run.judged.stages, [&](const JudgedStage& judged) {
      return judged.name == stage && shows(judged);
    });
    text = alone ? "; so it does alone" : "; alone it does not";
  }
  return text;
}

// The first prefix that shows it says which stage brings it.
std::string BroughtBy(const Diagnosis& diagnosis) {
  const DoctorRun* without = nullptr;
  for (const DoctorRun& run : diagnosis.runs) {
    if (run.kind != Kind::kPrefix || !run.ran) continue;
    if (run.judged.process.Keeps()) {
      return without == nullptr ? "; so it does with the source alone"
                                : absl::StrCat("; it begins with ", diagnosis.Named(run.stage),
                                               ": without that stage the worker does not grow");
    }
    without = &run;
  }
  return without == nullptr ? "" : "; with the last stage left out it does not";
}

void AddDeaths(const Diagnosis& diagnosis, const DoctorRun& run, std::vector<std::string>& said) {
  using Deaths = std::map<std::string, std::vector<const TrialDeath*>>;  // by stage
  Deaths over_quota;
  Deaths crashes;
  for (const TrialDeath& death : run.trial.deaths) {
    (death.over_quota ? over_quota : crashes)[death.stage].push_back(&death);
  }
  for (const auto& [stage, deaths] : crashes) {
    const std::string workers = CountText(deaths.size(), "worker");
    said.push_back(absl::StrCat(
        stage.empty() ? absl::StrCat(workers, " ended in no stage")
                      : absl::StrCat(diagnosis.Named(stage), " ended ", workers),
        ": ", deaths[0]->reason,
        deaths[0]->sample.empty() ? "" : absl::StrCat(", at record ", deaths[0]->sample)));
  }
  for (const auto& [stage, deaths] : over_quota) {
    said.push_back(
        absl::StrCat(CountText(deaths.size(), "worker"), " met the quota of ",
                     FormatBytes(run.trial.quota_bytes),
                     stage.empty() ? "" : absl::StrCat(" in ", diagnosis.Named(stage)),
                     deaths[0]->reason.empty() ? "" : absl::StrCat(": ", deaths[0]->reason)));
  }
}

void AddStages(const Diagnosis& diagnosis, const DoctorRun& run, std::vector<std::string>& said) {
  std::vector<JudgedStage> stages = run.judged.stages;
  stages.push_back(run.judged.process);
  std::ranges::stable_sort(stages, std::greater(), &JudgedStage::kept_bytes);
  for (const JudgedStage& stage : stages) {
    if (stage.memory == v1::VERDICT_KIND_LEAK && !stage.name.empty()) {
      said.push_back(absl::StrCat(diagnosis.Named(stage.name), " keeps ",
                                  SignedBytes(stage.kept_bytes), " more with each sample",
                                  Elsewhere(diagnosis, run, stage.name,
                                            [](const JudgedStage& one) { return one.Keeps(); })));
    } else if (stage.memory == v1::VERDICT_KIND_RETENTION) {
      said.push_back(absl::StrCat("the worker keeps ", SignedBytes(stage.kept_bytes),
                                  " more with each sample, but no stage keeps what it allocates",
                                  BroughtBy(diagnosis)));
    }
  }
  for (const JudgedStage& stage : stages) {
    if (!stage.time.slows || stage.name.empty()) continue;
    said.push_back(absl::StrFormat(
        "%s becomes slow: %.3g ms a sample at first, %.3g ms at the end%s",
        diagnosis.Named(stage.name), stage.time.first_seconds * 1e3, stage.time.last_seconds * 1e3,
        Elsewhere(diagnosis, run, stage.name,
                  [](const JudgedStage& one) { return one.time.slows; })));
  }
}

// What is uncertain of an uncertain run: the process, or else a stage.
const JudgedStage& Unsteady(const JudgedTrial& judged) {
  const auto stage = std::ranges::find_if(judged.stages, &JudgedStage::IsUncertain);
  return judged.process.IsUncertain() || stage == judged.stages.end() ? judged.process : *stage;
}

// The growth that would have been told from noise: more than any that was taken for none.
std::string LeastSeen(const DoctorRun& whole) {
  const uint64_t judged = std::max<uint64_t>(1, whole.judged.samples / 2);
  double least = kLeastRise / static_cast<double>(judged);
  for (const JudgedStage& stage : whole.judged.stages) least = std::max(least, stage.kept_bytes);
  return SignedBytes(least);
}

}  // namespace

bool DoctorRun::IsFault() const {
  return ran && (!trial.error.ok() || !trial.deaths.empty() || judged.process.IsFault() ||
                 std::ranges::any_of(judged.stages, &JudgedStage::IsFault));
}

bool DoctorRun::IsUncertain() const {
  return ran &&
         (judged.process.IsUncertain() || judged.process.memory == v1::VERDICT_KIND_WARM_UP ||
          std::ranges::any_of(judged.stages, &JudgedStage::IsUncertain));
}

std::string DoctorRun::Word() const {
  if (!ran) return "did not run";
  if (Crashed(*this)) return "crashes";
  if (!trial.error.ok()) return "fails";
  const JudgedStage* worst = &judged.process;
  for (const JudgedStage& stage : judged.stages) {
    const bool worse = stage.memory > worst->memory || (stage.IsFault() && !worst->IsFault());
    // What a stage holds while the process is level is no growth of the worker.
    if (stage.IsFault() && worse) worst = &stage;
  }
  return worst->Word();
}

std::string DoctorRun::Error() const {
  return InFlags(client_internal::InOptions(trial.error.message()));
}

std::string Diagnosis::Named(const std::string& stage, const char* worker) const {
  if (stage.empty()) return worker;
  const auto found = code.find(stage);
  return found == code.end() ? stage : absl::StrCat(stage, " (", found->second, ")");
}

std::string Diagnosis::Setting() const {
  const std::string worker = sandbox == "all"    ? "a sandboxed worker of one thread"
                             : sandbox == "none" ? "a worker of one thread without a sandbox"
                                                 : absl::StrCat("a worker of one thread with ",
                                                                sandbox, " of the sandbox");
  return absl::StrCat(CountText(samples, "sample"), " in each run, made by ", worker);
}

int Diagnosis::ExitCode() const {
  // What is uncertain with fewer stages alone is the noise of a run that is soon over.
  const bool any_fault = std::ranges::any_of(runs, &DoctorRun::IsFault);
  return any_fault || runs[0].IsUncertain() ? 1 : 0;
}

std::vector<std::string> Conclusions(const Diagnosis& diagnosis) {
  std::vector<std::string> said;
  const DoctorRun& whole = diagnosis.runs[0];
  AddDeaths(diagnosis, whole, said);
  if (!whole.trial.error.ok()) {
    said.push_back(absl::StrCat("the stream ended: ", whole.Error()));
  }
  AddStages(diagnosis, whole, said);
  for (const DoctorRun& run : diagnosis.runs) {
    if (!said.empty() || run.kind == Kind::kWhole || !run.IsFault()) continue;
    AddDeaths(diagnosis, run, said);
    if (!run.trial.error.ok()) {
      said.push_back(absl::StrCat("the stream ended: ", run.Error()));
    }
    AddStages(diagnosis, run, said);
    for (std::string& sentence : said) {
      absl::StrAppend(&sentence, "; seen in the run of ", run.title, " only");
    }
  }
  if (said.empty() && whole.judged.process.memory == v1::VERDICT_KIND_WARM_UP) {
    said.push_back("too few samples were made to judge by; raise --samples");
  } else if (said.empty() && diagnosis.ExitCode() != 0) {
    const JudgedStage& unsteady = Unsteady(whole.judged);
    const bool grows = unsteady.kept_bytes > unsteady.bound_bytes;
    said.push_back(absl::StrCat(
        "memory of ", diagnosis.Named(unsteady.name),
        grows ? " still grows, by " : " went up and down, by ", SignedBytes(unsteady.kept_bytes),
        " ± ", SignedBytes(unsteady.bound_bytes), " a sample, ",
        grows ? "but too unsteadily to tell why" : "so it may grow or not", "; raise --samples"));
  } else if (said.empty()) {
    said.push_back(absl::StrCat("no stage keeps memory and none becomes slow; a leak of less than ",
                                LeastSeen(whole), " a sample would not show in ",
                                CountText(whole.judged.samples, "sample")));
  }
  if (whole.trial.substituted > 0) {
    said.push_back(absl::StrCat(CountText(whole.trial.substituted, "sample"),
                                " could not be made: ", whole.trial.substituted_why));
  }
  return said;
}

std::string SignedBytes(double bytes) {
  const auto whole = static_cast<uint64_t>(std::llround(std::abs(bytes)));
  return absl::StrCat(bytes < 0 && whole > 0 ? "-" : "", FormatBytes(whole));
}

}  // namespace bulkhead::tools
