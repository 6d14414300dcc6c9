#include "tools/index/publish.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/base/error.h"
#include "server/base/paths/object_url.h"
#include "server/data/object_fetcher.h"
#include "server/data/published_index.h"
#include "server/os/files/filesystem.h"
#include "server/spec/record_files.h"
#include "tools/local/local_data.h"

namespace bulkhead::tools {
namespace {

absl::Status CheckPattern(const std::string& pattern) {
  const auto refuse = [&](absl::string_view why) {
    return MakeError(absl::StatusCode::kInvalidArgument, reason::kInvalidArgument,
                     absl::StrCat("--publish: ", ShownUrl(pattern), ": ", why));
  };
  if (!IsObjectUrl(pattern)) {
    return refuse(
        "is a local file, and indexes are published beside objects only; services of this user "
        "find a file's index in the cache folder, where `bulkhead index` without --publish puts "
        "it");
  }
  BULKHEAD_ASSIGN_OR_RETURN(const ObjectUrl url, ParseObjectUrl(pattern));
  if (!url.is_bucket())
    return refuse("nothing can be written to http; publish from s3:// or gs://");
  return absl::OkStatus();
}

absl::Status CheckSource(const v1::Source& source) {
  if (!HasRecordFiles(source)) {
    return MakeError(absl::StatusCode::kInvalidArgument, reason::kInvalidArgument,
                     "--publish: only the objects of tfrecord and tar sources have record indexes");
  }
  for (const std::string& pattern : *RecordFilesOf(source).files) {
    BULKHEAD_RETURN_IF_ERROR(CheckPattern(pattern));
  }
  return absl::OkStatus();
}

// Publishes those of one source.
absl::Status PublishSource(const v1::Source& source, const internal::v1::ResolvedSource& resolved,
                           const LocalData& data,
                           const std::function<void(absl::string_view)>& show,
                           Published& published) {
  uint64_t done = 0;
  for (const internal::v1::ResolvedFile& file : resolved.files()) {
    ++published.objects;
    published.object_bytes += file.size_bytes();
    published.records += file.record_count();
    show(absl::StrFormat("publishing: %d of %d objects", ++done, resolved.files_size()));
    if (!data.WasBuiltHere(file)) continue;
    const std::string url = PublishedUrl(file.object().url());
    if (!CanBePublished(file)) {
      return absl::FailedPreconditionError(
          absl::StrCat(ShownUrl(url),
                       ": the store tells no ETag of the object, by which its index "
                       "would be known; it cannot be published"));
    }
    BULKHEAD_ASSIGN_OR_RETURN(const std::string index,
                              ReadPrefix(file.index_path(), kMostPublishedBytes + 1));
    std::string content = ToPublished(ClaimOf(source, file), index);
    const uint64_t bytes = content.size();
    if (bytes > MostPublishedBytes(file.size_bytes())) {
      ++published.too_large;
      continue;
    }
    BULKHEAD_RETURN_IF_ERROR(data.objects()->Put(url, std::move(content), [] { return false; }));
    ++published.written;
    published.written_bytes += bytes;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Published> PublishIndexes(const v1::PipelineSpec& spec, const std::string& base_dir,
                                         const std::function<void(absl::string_view)>& show) {
  // The records themselves are indexed, whatever the spec selects of them.
  v1::PipelineSpec plain = spec;
  const auto strip = [](auto& part) {
    part.clear_filter();
    part.clear_split();
    part.clear_skip();
    part.clear_take();
  };
  strip(plain);
  if (spec.source().has_mixture()) {
    for (v1::MixedSource& mixed : *plain.mutable_source()->mutable_mixture()->mutable_sources()) {
      BULKHEAD_RETURN_IF_ERROR(CheckSource(mixed.source()));
      strip(mixed);
    }
  } else {
    BULKHEAD_RETURN_IF_ERROR(CheckSource(spec.source()));
  }
  BULKHEAD_ASSIGN_OR_RETURN(const auto data,
                            LocalData::Create(plain, base_dir, [&](const v1::Progress& progress) {
                              show(absl::StrCat(progress.activity(), ", ", progress.files_done(),
                                                " of ", progress.files_total(), " objects"));
                            }));
  Published published;
  const internal::v1::ResolvedSource& found = data->found().resolved;
  if (!spec.source().has_mixture()) {
    BULKHEAD_RETURN_IF_ERROR(PublishSource(spec.source(), found, *data, show, published));
  }
  for (int i = 0; i < found.mixed_size(); ++i) {
    BULKHEAD_RETURN_IF_ERROR(PublishSource(spec.source().mixture().sources(i).source(),
                                           found.mixed(i), *data, show, published));
  }
  return published;
}

}  // namespace bulkhead::tools
