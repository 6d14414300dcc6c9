#include "absl/strings/str_cat.h"
#include "server/base/byte_size.h"
#include "server/stages/declaration/families.h"
#include "server/stages/declaration/feature_kind.h"

namespace bulkhead {
namespace {

using google::protobuf::FieldDescriptor;

// A day: use `hang` to wait longer.
constexpr double kMaxSlowSeconds = 86'400;

// Of a fault that takes memory: one spelling of each size, so that equal stages have equal
// fingerprints.
void NormalizeBytes(const FieldDescriptor* fault, v1::Fault& stage, const std::string& path,
                    SpecProblems& problems) {
  const google::protobuf::Reflection& reflection = *stage.GetReflection();
  const absl::StatusOr<uint64_t> bytes = ParseBytes(reflection.GetString(stage, fault));
  if (!bytes.ok()) {
    problems.Add(path, bytes.status().message());
  } else if (*bytes == 0) {
    problems.Add(path, "must be at least 1B");
  } else {
    reflection.SetString(&stage, fault, absl::StrCat(*bytes, "B"));
  }
}

void NormalizeFault(v1::Fault& stage, const std::string& path, SpecProblems& problems) {
  const FieldDescriptor* const fault =
      v1::Fault::descriptor()->FindFieldByNumber(stage.fault_case());
  if (fault == nullptr) {
    return problems.Add(path, "names no fault: write one, such as {leak: 1MiB}");
  }
  const std::string place = absl::StrCat(path, ".", fault->name());
  if (fault->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    return NormalizeBytes(fault, stage, place, problems);
  }
  if (fault->cpp_type() != FieldDescriptor::CPPTYPE_BOOL) return;
  if (stage.GetReflection()->GetBool(stage, fault)) return;
  problems.Add(place, "can be true only; leave the stage out where it should not act");
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
