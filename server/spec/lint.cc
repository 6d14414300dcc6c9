#include "server/spec/lint.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "server/spec/record_files.h"
#include "server/spec/source_chain.h"
#include "server/spec/stage_signature.h"
#include "server/stages/declaration/batch_kind.h"
#include "server/stages/declaration/stage_checks.h"

namespace bulkhead {
namespace {

// No network is fed larger numbers on purpose.
constexpr double kMaxSensible = 1000;

// The values that a feature can have.
struct Range {
  double low = 0;
  double high = 0;
};

using Floats = google::protobuf::RepeatedField<float>;

std::string RoundedNumber(double value) { return absl::StrFormat("%.6g", value); }

std::string Numbers(const Floats& values, double factor) {
  const std::string text = absl::StrJoin(values, ", ", [&](std::string* out, float value) {
    absl::StrAppend(out, RoundedNumber(static_cast<double>(value) * factor));
  });
  return values.size() == 1 ? text : absl::StrCat("[", text, "]");
}

// The number for channel `i`, if there is one for all or one per channel.
double At(const Floats& values, int i) { return values[values.size() == 1 ? 0 : i]; }

// What `stage`, which is normalized, makes of values of a range.
Range Normalized(const v1::Normalize& stage, const Range& before) {
  const bool standard = !stage.mean().empty();
  const Floats& first = standard ? stage.mean() : stage.divide();
  const Floats& second = standard ? stage.std() : stage.subtract();
  Range after = {INFINITY, -INFINITY};
  for (int i = 0; i < std::max(first.size(), second.size()); ++i) {
    for (const double x : {before.low, before.high}) {
      const double y =
          standard ? (x - At(first, i)) / At(second, i) : x / At(first, i) - At(second, i);
      after = {std::min(after.low, y), std::max(after.high, y)};
    }
  }
  return after;
}

bool AllWithin(const Floats& values, double limit) {
  return std::all_of(values.begin(), values.end(),
                     [&](float value) { return std::abs(value) <= limit; });
}

bool IsAll(const Floats& values, float wanted) {
  return std::all_of(values.begin(), values.end(), [&](float value) { return value == wanted; });
}

// What is doubtful about constants for values of a range; empty: nothing.
std::string DoubtOfConstants(const v1::Normalize& stage, const Range& before, const Range& after) {
  const bool standard = !stage.mean().empty();
  const std::string gives = absl::StrCat("gives values from ", RoundedNumber(after.low), " to ",
                                         RoundedNumber(after.high), ": ");
  const bool changes = !IsAll(stage.mean(), 0) || !IsAll(stage.std(), 1);
  if (standard && changes && before.high > 2 && AllWithin(stage.mean(), 1) &&
      AllWithin(stage.std(), 1)) {
    return absl::StrCat(gives, "its constants are for values of 0 to 1, but they are ",
                        RoundedNumber(before.low), " to ", RoundedNumber(before.high),
                        " here; write mean: ", Numbers(stage.mean(), before.high),
                        ", std: ", Numbers(stage.std(), before.high));
  }
  if (standard && before.high <= 2 && !stage.mean().empty() && !AllWithin(stage.mean(), 2)) {
    return absl::StrCat(
        gives, "its constants are for values of 0 to 255, but they are ", RoundedNumber(before.low),
        " to ", RoundedNumber(before.high),
        " here; leave the stage before it out, or write mean: ", Numbers(stage.mean(), 1.0 / 255),
        ", std: ", Numbers(stage.std(), 1.0 / 255));
  }
  if (std::max(-after.low, after.high) > kMaxSensible) {
    return absl::StrCat(gives, "of values from ", RoundedNumber(before.low), " to ",
                        RoundedNumber(before.high),
                        "; for -1 to 1 write normalize: {divide: ", RoundedNumber(before.high / 2),
                        ", subtract: 1}");
  }
  return "";
}

// What is known of the values of a feature by its type alone.
bool RangeOfPixels(const FeatureSignature& feature, Range& range) {
  if (feature.kind != FeatureSignature::Kind::kImage && !feature.is_stack) return false;
  if (feature.dtype == v1::DTYPE_UINT8) range = {0, 255};
  if (feature.dtype == v1::DTYPE_UINT16) range = {0, 65'535};
  return feature.dtype == v1::DTYPE_UINT8 || feature.dtype == v1::DTYPE_UINT16;
}

// Follows the values of images through the stages of one source.
void LintConstants(const SourceChain& chain, const SourceSignature& signature,
                   std::vector<SpecProblem>& warnings) {
  std::map<std::string, Range> ranges;  // of floats, where it is known
  for (size_t i = 0; i < chain.steps.size(); ++i) {
    const v1::Stage& stage = *chain.steps[i].stage;
    const std::string path = StepPath(chain.steps[i]);
    if (stage.has_normalize()) {
      const std::string& name = stage.normalize().input();
      const std::vector<FeatureSignature>& features = signature.FeaturesBefore(i);
      const FeatureSignature* const feature = FindFeature(features, name);
      Range before;
      const auto known = ranges.find(name);
      if (known != ranges.end()) {
        before = known->second;
      } else if (feature == nullptr || !RangeOfPixels(*feature, before)) {
        continue;
      }
      const Range after = Normalized(stage.normalize(), before);
      const std::string doubt = DoubtOfConstants(stage.normalize(), before, after);
      if (!doubt.empty()) warnings.push_back({path, doubt});
      ranges[name] = after;
      continue;
    }
    for (const FeatureSignature& feature : signature.features_after[i]) {
      // Of floats the range stays; what else becomes one is not followed.
      const bool keeps = TraitsOf(stage).keeps_numbers && feature.dtype != v1::DTYPE_UINT8;
      if (feature.path == path && !keeps) ranges.erase(feature.name);
    }
  }
}

// What a user should know about a source and its order, whose places begin with `prefix`.
void LintOrder(const v1::Source& source, const v1::Order& order, bool one_pass,
               const std::string& prefix, std::vector<SpecProblem>& warnings) {
  const auto add = [&](absl::string_view place, std::string message) {
    warnings.push_back({absl::StrCat(prefix, place), std::move(message)});
  };
  const bool has_files = HasRecordFiles(source);
  const v1::Compression compression =
      has_files ? RecordFilesOf(source).compression : v1::COMPRESSION_NONE;
  const bool compressed =
      compression == v1::COMPRESSION_GZIP || compression == v1::COMPRESSION_ZLIB;
  if (compressed && (order.has_global() || order.has_block())) {
    add("order", absl::StrCat(order.has_global() ? "global" : "block",
                              " over compressed files decompresses megabytes for each sample; "
                              "write them uncompressed, or use order: sequential"));
  }
  if (compressed && order.has_interleave()) {
    add("order",
        "interleave over compressed files decompresses megabytes for each turn; write them "
        "uncompressed, or use a large block_length");
  }
  if (!has_files && order.has_interleave()) {
    add("order",
        "interleave takes files in turn, but this source counts as one file: the order is "
        "sequential");
  }
  const bool in_order = order.has_sequential() || order.has_interleave();
  if (source.has_image_folder() && !source.image_folder().unlabeled() && in_order && !one_pass) {
    add("source.image_folder",
        "is read class after class, so that a batch holds one class: write order: global; or "
        "epochs: 1, where one pass over everything is meant, as in an evaluation");
  }
}

}  // namespace

std::vector<SpecProblem> LintSpec(const v1::PipelineSpec& spec,
                                  const PipelineSignature& signature) {
  std::vector<SpecProblem> warnings;
  const bool one_pass = spec.epochs() == 1;
  LintOrder(spec.source(), spec.order(), one_pass, "", warnings);
  const v1::MixtureSource& mixture = spec.source().mixture();
  for (int i = 0; i < mixture.sources_size(); ++i) {
    LintOrder(mixture.sources(i).source(), mixture.sources(i).order(), one_pass,
              MixedSourcePath(i) + ".", warnings);
  }
  SpecProblems constants;  // the common stages are those of every source
  const std::vector<SourceChain> chains = SourceChains(spec);
  for (size_t i = 0; i < chains.size(); ++i) {
    std::vector<SpecProblem> found;
    LintConstants(chains[i], signature.sources[i], found);
    for (const SpecProblem& warning : found) constants.Add(warning.path, warning.message);
  }
  warnings.insert(warnings.end(), constants.all().begin(), constants.all().end());
  const bool mixes =
      std::any_of(spec.batch_stages().begin(), spec.batch_stages().end(),
                  [](const v1::BatchStage& stage) { return TraitsOf(stage).mixes_rows; });
  if (mixes && spec.batch().last() == v1::LAST_BATCH_PAD) {
    warnings.push_back({"batch.last",
                        "pad with batch_stages: they treat padding rows like other rows, and mix "
                        "them into rows that count; use partial or drop"});
  }
  return warnings;
}

}  // namespace bulkhead
