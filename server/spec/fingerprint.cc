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

// The parts of a source that decide its records' number and order. File names come from the
// resolved source; names and types of columns decide bytes, their number decides how a list is cut.
std::string SourceOrderText(const v1::Source& source) {
  switch (source.source_case()) {
    case v1::Source::kTfrecord:
      return "tfrecord";
    case v1::Source::kImageList: {
      const v1::ImageListSource& list = source.image_list();
      return absl::StrCat(
          "image_list images=", list.images_size(),
          " labels=", list.unlabeled() ? 0 : list.labels_size(),
          CanonicalText(list, {"path", "images", "labels", "label_dtype", "max_path_bytes",
                               "unlabeled", "classes", "classes_file"}));
    }
    case v1::Source::kImageFolder:
      // Which endings count shows in the checksum of the paths.
      return absl::StrCat("image_folder", CanonicalText(source.image_folder(),
                                                        {"path", "extensions", "max_path_bytes",
                                                         "classes", "classes_file"}));
    case v1::Source::kRange:
      return absl::StrCat("range", CanonicalText(source.range()));
    case v1::Source::kMixture:  // its sources speak for themselves
      return absl::StrCat("mixture", CanonicalText(source.mixture(), {"sources"}));
    case v1::Source::SOURCE_NOT_SET:
      break;
  }
  return "none";
}

// The parts of a source that decide what a record's features are called and hold.
std::string SourceBytesText(const v1::Source& source) {
  switch (source.source_case()) {
    case v1::Source::kImageList:
      // Once `classes_file` was read, its names are in `classes`.
      return absl::StrCat(
          "image_list", CanonicalText(source.image_list(),
                                      {"path", "entries", "delimiter", "header", "classes_file"}));
    case v1::Source::kImageFolder:
      return absl::StrCat("image_folder", CanonicalText(source.image_folder(),
                                                        {"path", "extensions", "classes_file"}));
    case v1::Source::kTfrecord:
      return "tfrecord";
    case v1::Source::kRange:
      return "range";
    case v1::Source::kMixture:
      return "mixture";
    case v1::Source::SOURCE_NOT_SET:
      break;
  }
  return "none";
}

// A source, its files, which of their records are read, and in which order. `spec` has them beside
// the source: PipelineSpec, MixedSource.
template <typename Spec>
std::string RecordsText(const v1::Source& source, const internal::v1::ResolvedSource& resolved,
                        const Spec& spec, const v1::ErrorPolicy& errors) {
  std::string text = absl::StrCat("source=", SourceOrderText(source), "\n");
  for (const internal::v1::ResolvedFile& file : resolved.files()) {
    if (source.has_range()) break;  // its only file is its selection
    // What a folder is called may be one machine's affair; its records are named below it.
    const std::string name = source.has_image_folder() ? "." : file.name();
    absl::StrAppend(&text, "file=", CanonicalString(name), " size=", file.size_bytes(),
                    " records=", file.record_count(),
                    " checksum=", absl::BytesToHexString(file.checksum()), "\n");
  }
  absl::StrAppend(&text, SelectionText(source, spec.features(), SelectionOf(spec, errors)),
                  "order=", CanonicalText(spec.order()), "\n");
  return text;
}

template <typename Stages>
void DropCaches(Stages& stages) {
  stages.erase(std::remove_if(stages.begin(), stages.end(),
                              [](const v1::Stage& stage) { return stage.has_cache(); }),
               stages.end());
}

// The default pixel cap of the first version stands for that of today, so that cursors of then are
// still good: the bytes of an image that both admit are the same.
template <typename Stages>
void NameDefaultCapAsAtFirst(Stages& stages) {
  constexpr uint64_t kFirstDefault = 32'000'000;
  for (v1::Stage& stage : stages) {
    if (stage.has_decode_image() && stage.decode_image().max_pixels() == kDefaultMaxPixels) {
      stage.mutable_decode_image()->set_max_pixels(kFirstDefault);
    }
  }
}

// The stages as the fingerprint names them. What is kept changes no byte.
template <typename Stages>
void PrepareStages(Stages& stages) {
  DropCaches(stages);
  NameDefaultCapAsAtFirst(stages);
}

v1::PipelineSpec WithPreparedStages(v1::PipelineSpec spec) {
  PrepareStages(*spec.mutable_stages());
  if (spec.source().has_mixture()) {
    for (v1::MixedSource& mixed : *spec.mutable_source()->mutable_mixture()->mutable_sources()) {
      PrepareStages(*mixed.mutable_stages());
    }
  }
  return spec;
}

}  // namespace

std::string OrderFingerprint(const v1::PipelineSpec& spec,
                             const internal::v1::ResolvedSource& resolved) {
  std::string text = "bulkhead order 2\n";
  absl::StrAppend(&text, RecordsText(spec.source(), resolved, spec, spec.errors()));
  const v1::MixtureSource& mixture = spec.source().mixture();
  for (int i = 0; i < mixture.sources_size() && i < resolved.mixed_size(); ++i) {
    const v1::MixedSource& mixed = mixture.sources(i);
    absl::StrAppend(&text, "mixed=", i, " ",
                    CanonicalText(mixed, {"source", "features", "filter", "split", "skip", "take",
                                          "order", "stages"}),
                    "\n", RecordsText(mixed.source(), resolved.mixed(i), mixed, spec.errors()));
  }
  absl::StrAppend(&text, "seed=", spec.seed(), "\n");
  return HexDigest(text);
}

std::string BytesFingerprint(const v1::PipelineSpec& whole, absl::Span<const BytesChange> changes) {
  const v1::PipelineSpec spec = WithPreparedStages(whole);
  std::string text = "bulkhead bytes 1\n";
  absl::StrAppend(&text, "source=", SourceBytesText(spec.source()), "\n");
  absl::StrAppend(&text, "spec=",
                  CanonicalText(spec, {"source", "batch", "order", "seed", "epochs", "filter",
                                       "split", "skip", "take", "deterministic"}),
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
