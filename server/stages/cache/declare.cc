#include "absl/strings/str_cat.h"
#include "server/stages/declaration/families.h"

namespace bulkhead {
namespace {

constexpr size_t kMaxKeyBytes = 256;

class CacheKind : public StageKind {
 public:
  CacheKind() : StageKind(v1::Cache::descriptor(), {}, {.keeps_samples = true}) {}

  std::vector<std::string> Reads(const v1::Stage&) const override { return {}; }
  void CheckRules(v1::Stage& stage, const std::string& path,
                  SpecProblems& problems) const override {
    if (stage.cache().key().size() <= kMaxKeyBytes) return;
    problems.Add(path + ".key", "is longer than ", kMaxKeyBytes, " bytes");
  }
  absl::Status Infer(const v1::Stage&, absl::string_view,
                     std::vector<FeatureSignature>&) const override {
    return absl::OkStatus();
  }
};

}  // namespace

StageKinds CacheKinds() { return Family(std::make_unique<CacheKind>()); }

}  // namespace bulkhead
