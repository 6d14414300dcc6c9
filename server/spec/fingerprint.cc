#include "server/spec/fingerprint.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/base/checksum.h"
#include "server/spec/canonical.h"
#include "server/spec/selection.h"
#include "server/spec/stage_signature.h"

namespace bulkhead {
namespace {

std::string HexDigest(absl::string_view text) {
  Sha256 sha;
  sha.Update(text);
  return sha.FinishHex();
}

// The name of a source in specs, "tfrecord".
std::string SourceName(const v1::Source& source) {
  const auto* const field = v1::Source::descriptor()->FindFieldByNumber(source.source_case());
  return field == nullptr ? "none" : field->name();
}

// The parts of a source that decide its records' number and order. File names come from the
// resolved source; names and types of columns decide bytes, their number decides how a list is cut.
std::string SourceOrderText(const v1::Source& source) {
  const std::string name = SourceName(source);
  if (source.has_image_list()) {
    const v1::ImageListSource& list = source.image_list();
    return absl::StrCat(
        name, " images=", list.images_size(), " labels=", list.unlabeled() ? 0 : list.labels_size(),
        CanonicalText(list, {"path", "images", "labels", "label_dtype", "max_path_bytes",
                             "unlabeled", "classes", "classes_file"}));
  }
  // Which endings count shows in the checksum of the paths.
  if (source.has_image_folder()) {
    return name + CanonicalText(source.image_folder(), {"path", "extensions", "max_path_bytes",
                                                        "classes", "classes_file"});
  }
  if (source.has_range()) return name + CanonicalText(source.range());
  // Its sources speak for themselves.
  if (source.has_mixture()) return name + CanonicalText(source.mixture(), {"sources"});
  return name;
}

// The parts of a source that decide what a record's features are called and hold.
std::string SourceBytesText(const v1::Source& source) {
  const std::string name = SourceName(source);
  // Once `classes_file` was read, its names are in `classes`.
  if (source.has_image_list()) {
    return name + CanonicalText(source.image_list(),
                                {"path", "entries", "delimiter", "header", "classes_file"});
  }
  if (source.has_image_folder()) {
    return name + CanonicalText(source.image_folder(), {"path", "extensions", "classes_file"});
  }
  return name;
}

// A source, its files, which of their records are read, and in which order. `spec` has them beside
// the source: PipelineSpec, MixedSource.
template <typename Spec>
std::string RecordsText(const v1::Source& source, const internal::v1::ResolvedSource& resolved,
                        const Spec& spec, const internal::v1::Selection& selection) {
  std::string text = absl::StrCat("source=", SourceOrderText(source), "\n");
  for (const internal::v1::ResolvedFile& file : resolved.files()) {
    if (source.has_range()) break;  // its only file is its selection
    // What a folder is called may be one machine's affair, and its size is one file system's; its
    // records are named below it.
    const bool is_folder = source.has_image_folder();
    const std::string name = is_folder ? "." : file.name();
    absl::StrAppend(&text, "file=", CanonicalString(name),
                    " size=", is_folder ? 0 : file.size_bytes(), " records=", file.record_count(),
                    " checksum=", absl::BytesToHexString(file.checksum()), "\n");
  }
  absl::StrAppend(&text, SelectionText(source, spec.features(), selection),
                  "order=", CanonicalText(spec.order()), "\n");
  return text;
}

// The spec as the fingerprint names it: what is kept, and what the classes of records are called,
// changes no byte. `Spec` has stages and features: PipelineSpec, MixedSource.
template <typename Spec>
void Prepare(Spec& spec) {
  auto& stages = *spec.mutable_stages();
  stages.erase(std::remove_if(stages.begin(), stages.end(),
                              [](const v1::Stage& stage) { return TraitsOf(stage).keeps_samples; }),
               stages.end());
  for (v1::Stage& stage : stages) {
    KindOf(stage)->options().NameFirstDefaults(MutableOptionsOf(stage));
  }
  for (auto& [name, feature] : *spec.mutable_features()) {
    if (feature.has_int64()) feature.mutable_int64()->clear_classes();
  }
}

v1::PipelineSpec Prepared(v1::PipelineSpec spec) {
  Prepare(spec);
  if (spec.source().has_mixture()) {
    for (v1::MixedSource& mixed : *spec.mutable_source()->mutable_mixture()->mutable_sources()) {
      Prepare(mixed);
    }
  }
  return spec;
}

}  // namespace

std::string OrderFingerprint(const v1::PipelineSpec& spec,
                             const internal::v1::ResolvedSource& resolved) {
  std::string text = "bulkhead order 2\n";
  absl::StrAppend(&text, RecordsText(spec.source(), resolved, spec, SelectionOf(spec)));
  const v1::MixtureSource& mixture = spec.source().mixture();
  for (int i = 0; i < mixture.sources_size() && i < resolved.mixed_size(); ++i) {
    const v1::MixedSource& mixed = mixture.sources(i);
    absl::StrAppend(
        &text, "mixed=", i, " ",
        CanonicalText(mixed,
                      {"source", "features", "filter", "split", "skip", "take", "order", "stages"}),
        "\n", RecordsText(mixed.source(), resolved.mixed(i), mixed, SelectionOf(spec, i)));
  }
  absl::StrAppend(&text, "seed=", spec.seed(), "\n");
  return HexDigest(text);
}

std::string BytesFingerprint(const v1::PipelineSpec& whole, absl::Span<const BytesChange> changes) {
  const v1::PipelineSpec spec = Prepared(whole);
  std::string text = "bulkhead bytes 1\n";
  absl::StrAppend(&text, "source=", SourceBytesText(spec.source()), "\n");
  absl::StrAppend(&text, "spec=",
                  CanonicalText(spec, {"source", "batch", "order", "seed", "epochs", "exclude",
                                       "filter", "split", "skip", "take", "deterministic"}),
                  "\n");
  for (const v1::MixedSource& mixed : spec.source().mixture().sources()) {
    absl::StrAppend(
        &text, "mixed=", SourceBytesText(mixed.source()), " ",
        CanonicalText(mixed, {"weight", "source", "filter", "split", "skip", "take", "order"}),
        "\n");
  }
  absl::StrAppend(&text, BytesChangesText(spec, changes));
  return HexDigest(text);
}

}  // namespace bulkhead
