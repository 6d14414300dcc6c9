#include "absl/strings/str_cat.h"
#include "server/base/byte_size.h"
#include "server/spec/stages/feature_kind.h"
#include "server/spec/stages/kind_families.h"

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
      if (!(stage.slow() > 0 && stage.slow() <= kMaxSlowSeconds)) {
        problems.Add(
            path + ".slow",
            absl::StrCat("must be a number of seconds above 0 and at most ", kMaxSlowSeconds));
      }
      break;
    case v1::Fault::FAULT_NOT_SET:
      problems.Add(path, "names no fault: write one, such as {leak: 1MiB}");
  }
  if (stage.every() == 0) stage.set_every(1);
}

// Reads and changes nothing.
class FaultKind : public StageKind {
 public:
  FaultKind() : StageKind({}) {}
  std::vector<std::string> Reads(const v1::Stage&) const override { return {}; }
  void Normalize(v1::Stage& stage, const std::string& path, SpecProblems& problems) const override {
    NormalizeFault(*stage.mutable_fault(), path, problems);
  }
  absl::Status Infer(const v1::Stage&, absl::string_view,
                     std::vector<FeatureSignature>&) const override {
    return absl::OkStatus();
  }
};

}  // namespace

std::vector<NumberedKind> FaultKinds() {
  std::vector<NumberedKind> kinds;
  kinds.emplace_back(v1::Stage::kFault, std::make_unique<FaultKind>());
  return kinds;
}

}  // namespace bulkhead
