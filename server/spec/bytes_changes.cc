#include "server/spec/bytes_changes.h"

#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "server/spec/batch_stages.h"
#include "server/spec/fingerprint.h"
#include "server/spec/stage_signature.h"

namespace bulkhead {
namespace {

std::set<std::string> StageNames(const v1::PipelineSpec& spec) {
  std::set<std::string> names;
  for (const v1::Stage& stage : spec.stages()) names.insert(StageName(stage));
  for (const v1::BatchStage& stage : spec.batch_stages()) names.insert(StageName(stage));
  for (const v1::MixedSource& mixed : spec.source().mixture().sources()) {
    for (const v1::Stage& stage : mixed.stages()) names.insert(StageName(stage));
  }
  return names;
}

}  // namespace

absl::Span<const BytesChange> BytesChanges() { return {}; }

std::string BytesChangesText(const v1::PipelineSpec& spec, absl::Span<const BytesChange> changes) {
  const std::set<std::string> names = StageNames(spec);
  std::map<absl::string_view, int> counts;
  for (const BytesChange& change : changes) {
    if (names.count(std::string(change.stage)) > 0) ++counts[change.stage];
  }
  std::string text;
  for (const auto& [stage, count] : counts)
    absl::StrAppend(&text, "changed=", stage, " ", count, "\n");
  return text;
}

std::string ChangedSince(const v1::PipelineSpec& spec,
                         absl::FunctionRef<bool(const std::string& fingerprint)> is_that,
                         absl::Span<const BytesChange> changes) {
  const std::set<std::string> names = StageNames(spec);
  std::string since;
  while (!changes.empty()) {
    const BytesChange& last = changes.back();
    changes.remove_suffix(1);
    if (names.count(std::string(last.stage)) == 0) continue;
    since = absl::StrCat(last.stage, " (", last.what, ")", since.empty() ? "" : ", ", since);
    if (is_that(BytesFingerprint(spec, changes))) return since;
  }
  return "";
}

}  // namespace bulkhead
