#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/base/limits.h"
#include "server/spec/declared_options.h"
#include "server/spec/normalize/normalize_parts.h"
#include "server/spec/source_chain.h"
#include "server/stages/declaration/stage_kind.h"

namespace bulkhead {
namespace {

// More sources are a slip; and every worker keeps something for each.
constexpr int kMaxSources = 256;

// What says something about one source stands on each source of a mixture.
void RefuseAtTheTop(v1::PipelineSpec& spec, SpecProblems& problems) {
  const auto refuse = [&](bool given, absl::string_view field) {
    if (!given) return;
    problems.Add(field, absl::StrCat("stands on each source of a mixture: move it to "
                                     "source.mixture.sources, beside `weight`"));
  };
  refuse(!spec.features().empty(), "features");
  refuse(spec.has_order(), "order");
  refuse(!spec.filter().empty(), "filter");
  refuse(spec.has_split(), "split");
  refuse(spec.skip() != 0, "skip");
  refuse(spec.has_take(), "take");
  spec.clear_take();  // enough is said of it
}

void NormalizeStop(v1::MixtureSource& mixture, SpecProblems& problems) {
  if (!v1::MixtureStop_IsValid(mixture.stop())) {
    problems.Add("source.mixture.stop", "has the unknown value ", mixture.stop());
    return;
  }
  DeclaredOptions(v1::MixtureSource::descriptor())->FillDefaults(mixture);
  const bool never = mixture.stop() == v1::MIXTURE_STOP_NEVER;
  if (never && mixture.samples_per_epoch() == 0) {
    problems.Add("source.mixture.samples_per_epoch",
                 "is required with `stop: never`: how many samples make an epoch, at least 1");
  } else if (mixture.samples_per_epoch() > kMaxMixtureEpoch) {
    problems.Add("source.mixture.samples_per_epoch", "is ", mixture.samples_per_epoch(),
                 "; at most ", kMaxMixtureEpoch, " samples make an epoch of a mixture");
  } else if (!never && mixture.samples_per_epoch() != 0) {
    problems.Add("source.mixture.samples_per_epoch",
                 "goes with `stop: never` only; otherwise the sources decide when an epoch ends");
  }
}

// `problems` of this source: places are relative to it.
void NormalizeMixed(v1::MixedSource& mixed, SpecProblems& problems) {
  mixed.mutable_source();  // NormalizeSource says which there are
  NormalizeOptions(mixed, "", problems);
  NormalizeSource(*mixed.mutable_source(), *mixed.mutable_features(), problems);
  NormalizeSelection(mixed, problems);
  NormalizeOrder(*mixed.mutable_order(), problems);
  for (int i = 0; i < mixed.stages_size(); ++i) {
    NormalizeStageOptions(*mixed.mutable_stages(i), absl::StrCat("stages[", i, "]"), problems);
  }
}

}  // namespace

void NormalizeMixture(v1::PipelineSpec& spec, SpecProblems& problems) {
  RefuseAtTheTop(spec, problems);
  v1::MixtureSource& mixture = *spec.mutable_source()->mutable_mixture();
  NormalizeStop(mixture, problems);
  if (mixture.sources_size() < 2 || mixture.sources_size() > kMaxSources) {
    problems.Add("source.mixture.sources", "has ", mixture.sources_size(),
                 "; a mixture is of 2 to ", kMaxSources, " sources");
    // What is too much is looked at no further.
    const int kept = std::min<int>(mixture.sources_size(), kMaxSources);
    mixture.mutable_sources()->DeleteSubrange(kept, mixture.sources_size() - kept);
    return;
  }
  for (int i = 0; i < mixture.sources_size(); ++i) {
    SpecProblems own;
    NormalizeMixed(*mixture.mutable_sources(i), own);
    problems.AddBelow(MixedSourcePath(i), own);
  }
}

}  // namespace bulkhead
