#include "tools/doctor/examination.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bulkhead/error.h"
#include "server/base/byte_size.h"
#include "server/base/error.h"
#include "server/spec/source_chain.h"
#include "server/spec/stage_signature.h"
#include "tools/common/count_text.h"
#include "tools/doctor/cut_specs.h"
#include "tools/doctor/judgement.h"
#include "tools/doctor/single_stage.h"
#include "tools/local/local_pipeline.h"
#include "tools/local/temporary_folder.h"
#include "tools/measure/own_service.h"

namespace bulkhead::tools {
namespace {

using Kind = DoctorRun::Kind;

std::string StageLabel(const v1::PipelineSpec& spec, int number) {
  return absl::StrCat("stages[", number, "] ", StageName(spec.stages(number)));
}

// Calls a stage by the name that it has in the whole spec.
void Rename(const std::string& name, const std::string& whole_name, Trial& trial) {
  for (WorkerLooks& worker : trial.workers) {
    for (TrialLook& look : worker.looks) {
      auto counters = look.stages.extract(name);
      if (counters.empty()) continue;
      counters.key() = whole_name;
      look.stages.insert(std::move(counters));
    }
  }
  for (TrialDeath& death : trial.deaths) {
    if (death.stage == name) death.stage = whole_name;
  }
}

std::vector<std::string> ServiceArguments(const ExaminationOptions& options) {
  std::vector<std::string> flags = options.user_code.ServiceArguments();
  const auto add = [&](const char* flag, const std::string& value) {
    if (!value.empty()) flags.insert(flags.end(), {flag, value});
  };
  add("--worker-quota", options.quota);
  add("--memory-budget", options.budget);
  // A worker has to show what it does for as long as it can.
  add("--recycle-growth", "false");
  add("--recycle-slowdown", "0");
  flags.push_back("--allow-fault-stages");
  return flags;
}

// The runs of one spec, one after the other.
class Examination {
 public:
  Examination(const ExaminationOptions& options, v1::PipelineSpec spec, const OwnService& service,
              const std::string& folder, ProgressLine& line)
      : options_(options),
        spec_(std::move(spec)),
        service_(service),
        folder_(folder),
        line_(line) {}

  absl::StatusOr<Diagnosis> Run() {
    BULKHEAD_ASSIGN_OR_RETURN(std::vector<SpecPrefix> prefixes, PrefixesOf(spec_));
    BULKHEAD_RETURN_IF_ERROR(RunWhole());
    for (SpecPrefix& prefix : prefixes) BULKHEAD_RETURN_IF_ERROR(RunPrefix(prefix));
    for (int i = 0; i < spec_.stages_size(); ++i) {
      if (!TraitsOf(spec_.stages(i)).keeps_samples) BULKHEAD_RETURN_IF_ERROR(RunAlone(i));
    }
    line_.Finish(absl::StrCat(CountText(diagnosis_.runs.size(), "run"), " done"));
    diagnosis_.spec = options_.spec;
    diagnosis_.samples = options_.samples;
    const std::string& sandbox = options_.user_code.sandbox;
    diagnosis_.sandbox = sandbox.empty() ? "all" : sandbox;
    diagnosis_.code = CodeOfStages(spec_);
    diagnosis_.joined = JoinedStages();
    return std::move(diagnosis_);
  }

 private:
  // Those of the spec that the whole run does not name, although it made samples.
  std::vector<std::string> JoinedStages() const {
    const JudgedTrial& whole = diagnosis_.runs[0].judged;
    std::vector<std::string> joined;
    for (int i = 0; i < spec_.stages_size() && whole.samples > 0; ++i) {
      const std::string label = StageLabel(spec_, i);
      const bool named =
          std::ranges::find(whole.stages, label, &JudgedStage::name) != whole.stages.end();
      if (!named && !TraitsOf(spec_.stages(i)).keeps_samples) joined.push_back(label);
    }
    return joined;
  }

  absl::Status RunWhole() {
    DoctorRun& run = diagnosis_.runs.emplace_back();
    run.title = "the whole spec";
    BULKHEAD_RETURN_IF_ERROR(Try({spec_, SpecFolder(options_.spec)}, false, run));
    // Such an error says what is wrong with the options, the spec or the data.
    const bool unusable = ErrorReason(run.trial.error) == reason::kStageUnusable;
    return run.trial.began && !unusable ? absl::OkStatus() : run.trial.error;
  }

  absl::Status RunPrefix(const SpecPrefix& prefix) {
    DoctorRun& run = diagnosis_.runs.emplace_back();
    run.kind = Kind::kPrefix;
    run.title = prefix.title;
    run.stage = prefix.stages == 0 ? "source" : StageLabel(spec_, prefix.stages - 1);
    run.note = prefix.impossible;
    if (!prefix.impossible.empty()) return absl::OkStatus();
    if (!prefix.added.empty()) run.note = absl::StrCat("with ", prefix.added, " added");
    BULKHEAD_RETURN_IF_ERROR(Try({prefix.spec, SpecFolder(options_.spec)}, true, run));
    captured_[prefix.stages] = std::move(run.trial.captured);
    return absl::OkStatus();
  }

  absl::Status RunAlone(int number) {
    DoctorRun& run = diagnosis_.runs.emplace_back();
    run.kind = Kind::kAlone;
    run.stage = run.title = StageLabel(spec_, number);
    const auto single = MakeSingleStage(spec_, number, options_.input, captured_[number], folder_);
    if (absl::IsFailedPrecondition(single.status())) {
      run.note = std::string(single.status().message());
      return absl::OkStatus();
    }
    BULKHEAD_RETURN_IF_ERROR(single.status());
    run.note = single->input;
    BULKHEAD_RETURN_IF_ERROR(Try({single->spec, folder_}, false, run));
    Rename(single->name, run.stage, run.trial);
    run.judged = Judge(run.trial);
    return absl::OkStatus();
  }

  absl::Status Try(const TrialSpec& tried, bool capture, DoctorRun& run) {
    const auto tell = [&](uint64_t samples, uint64_t memory_bytes) {
      if (!line_.Due()) return;
      const double share = static_cast<double>(samples) / static_cast<double>(options_.samples);
      line_.Show(absl::StrFormat("%s run %d: %d of %d samples, %s; %s", ProgressBar(share),
                                 diagnosis_.runs.size(), samples, options_.samples,
                                 FormatBytes(memory_bytes), run.title));
    };
    BULKHEAD_ASSIGN_OR_RETURN(
        run.trial, RunTrial(tried, {service_.target(), options_.samples, capture}, tell));
    run.ran = true;
    run.judged = Judge(run.trial);
    return absl::OkStatus();
  }

  const ExaminationOptions& options_;
  const v1::PipelineSpec spec_;
  const OwnService& service_;
  const std::string& folder_;
  ProgressLine& line_;
  Diagnosis diagnosis_;
  std::map<int, CapturedValues> captured_;  // by the number of the stage that gets them
};

}  // namespace

absl::StatusOr<Diagnosis> Examine(const ExaminationOptions& options, ProgressLine& line) {
  BULKHEAD_ASSIGN_OR_RETURN(v1::PipelineSpec spec, ReadSpecFile(options.spec));
  // For the inputs of single stages.
  BULKHEAD_ASSIGN_OR_RETURN(const TemporaryFolder folder, TemporaryFolder::Make("doctor"));
  BULKHEAD_ASSIGN_OR_RETURN(const auto service,
                            OwnService::Start(/*workers=*/1, ServiceArguments(options)));
  return Examination(options, std::move(spec), *service, folder.path(), line).Run();
}

}  // namespace bulkhead::tools
