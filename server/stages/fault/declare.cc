#include "absl/strings/str_cat.h"
#include "server/base/byte_size.h"
#include "server/stages/declaration/families.h"
#include "server/stages/declaration/feature_kind.h"

namespace bulkhead {
namespace {

// A day: use `hang` to wait longer.
constexpr double kMaxSlowSeconds = 86'400;

// One spelling of each size, so that equal stages have equal fingerprints.
void NormalizeBytes(std::string& size, const std::string& path, SpecProblems& problems) {
  const absl::StatusOr<uint64_t> bytes = ParseBytes(size);
  if (!bytes.ok()) {
    problems.Add(path, bytes.status().message());
  } else if (*bytes == 0) {
    problems.Add(path, "must be at least 1B");
  } else {
    size = absl::StrCat(*bytes, "B");
  }
}

void CheckTrue(bool value, const std::string& path, SpecProblems& problems) {
  if (!value) problems.Add(path, "can be true only; leave the stage out where it should not act");
}

void NormalizeFault(v1::Fault& stage, const std::string& path, SpecProblems& problems) {
  switch (stage.fault_case()) {
    case v1::Fault::kLeak:
      NormalizeBytes(*stage.mutable_leak(), path + ".leak", problems);
      break;
    case v1::Fault::kLeakMmap:
      NormalizeBytes(*stage.mutable_leak_mmap(), path + ".leak_mmap", problems);
      break;
    case v1::Fault::kTouch:
      NormalizeBytes(*stage.mutable_touch(), path + ".touch", problems);
      break;
    case v1::Fault::kBurst:
      NormalizeBytes(*stage.mutable_burst(), path + ".burst", problems);
      break;
    case v1::Fault::kCrash:
      CheckTrue(stage.crash(), path + ".crash", problems);
      break;
    case v1::Fault::kHang:
      CheckTrue(stage.hang(), path + ".hang", problems);
      break;
    case v1::Fault::kSlow:
      break;
    case v1::Fault::FAULT_NOT_SET:
      problems.Add(path, "names no fault: write one, such as {leak: 1MiB}");
  }
}

// Reads and changes nothing.
class FaultKind : public StageKind {
 public:
  FaultKind()
      : StageKind(
            v1::Fault::descriptor(),
            {Option("slow").Above(0, kMaxSlowSeconds,
                                  "must be a number of seconds above $1 and at most $2"),
             Option("records").Otherwise("all"), Option("every").Default(1).Between(1, kNoLimit),
             Option("after_samples").Default(0)},
            {.fails_on_purpose = true}) {}
  std::vector<std::string> Reads(const v1::Stage&) const override { return {}; }
  void CheckRules(v1::Stage& stage, const std::string& path,
                  SpecProblems& problems) const override {
    NormalizeFault(*stage.mutable_fault(), path, problems);
  }
  absl::Status Infer(const v1::Stage&, absl::string_view,
                     std::vector<FeatureSignature>&) const override {
    return absl::OkStatus();
  }
};

}  // namespace

StageKinds FaultKinds() { return Family(std::make_unique<FaultKind>()); }

}  // namespace bulkhead
