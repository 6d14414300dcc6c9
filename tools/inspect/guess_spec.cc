#include "tools/inspect/guess_spec.h"

#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/paths/object_url.h"
#include "tools/common/json.h"
#include "tools/inspect/folder_survey.h"
#include "tools/inspect/list_spec.h"
#include "tools/inspect/record_spec.h"
#include "tools/inspect/spec_text.h"
#include "tools/inspect/tar_samples.h"
#include "tools/local/find_progress.h"
#include "tools/local/object_copy.h"

namespace bulkhead::tools {
namespace {

namespace fs = std::filesystem;

absl::Status Unclear(absl::string_view message) {
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kSpecInvalid, message);
}

// Whether the file's name says TFRecord: x.tfrecord, x.tfrecord.gz, x.tfrecords-00000-of-00008 …
bool IsNamedTfRecord(const std::string& path) {
  return absl::StrContains(fs::path(path).filename().string(), ".tfrec");
}

absl::StatusOr<std::string> FolderSpec(const FolderSurvey& folder, const std::string& name,
                                       const std::string& records, const GuessOptions& options) {
  if (folder.files() == 0) return Unclear(absl::StrCat(name, ": holds no images", records));
  return WithStages(absl::StrCat("source:\n  image_folder: {path: ", Quoted(AbsolutePath(name)),
                                 folder.has_classes() ? "" : ", unlabeled: true", "}\n"),
                    folder.has_classes() ? "label" : "", options);
}

// Text has no zero byte; the length of a TFRecord's first record does. A compressed file begins
// with the magic number of GZIP, or with one of the usual three of ZLIB.
bool LooksLikeText(const std::string& begin) {
  for (const char* magic : {"\x1f\x8b", "\x78\x01", "\x78\x9c", "\x78\xda"}) {
    if (absl::StartsWith(begin, magic)) return false;
  }
  return begin.find('\0') == std::string::npos;
}

}  // namespace

std::string RecordsIn(const std::string& folder) {
  std::error_code error;
  const fs::path packed = fs::path(folder) / "packed.yaml";
  if (fs::exists(packed, error)) {
    return absl::StrCat("; for the records that `pack` wrote there write ", packed.string());
  }
  fs::recursive_directory_iterator entry(folder, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    const fs::path path = entry->path();
    if (IsNamedTfRecord(path.string())) {
      return absl::StrCat("; for TFRecords write '", (path.parent_path() / "*.tfrec*").string(),
                          "'");
    }
    if (path.extension() == ".tar") {
      return absl::StrCat("; for tars write '", (path.parent_path() / "*.tar").string(), "'");
    }
  }
  return "";
}

bool IsImageList(const InspectedFile& file) {
  return !IsNamedTfRecord(file.name()) && !IsTar(file) && LooksLikeText(file.Head());
}

absl::StatusOr<std::string> GuessSpec(const std::vector<std::string>& data,
                                      const GuessOptions& options, std::set<std::string>* others) {
  BULKHEAD_ASSIGN_OR_RETURN(const InspectedData found, FindData(data, ShowFinding()));
  return GuessSpecOf(found, data, options, others);
}

absl::StatusOr<std::string> GuessSpecOf(const InspectedData& found,
                                        const std::vector<std::string>& data,
                                        const GuessOptions& options,
                                        std::set<std::string>* others) {
  if (found.folder != nullptr) {
    const std::string shown = ShownUrl(data[0]);
    BULKHEAD_ASSIGN_OR_RETURN(const FolderSurvey folder, FolderSurvey::Of(*found.folder, shown, 0));
    return FolderSpec(folder, data[0],
                      absl::StrCat("; for records name their objects, such as '", shown,
                                   absl::EndsWith(shown, "/") ? "" : "/", "*.tfrecord'"),
                      options);
  }
  const std::string& name = found.files.front().name();
  std::error_code error;
  if (!found.files.front().is_object() && fs::is_directory(name, error)) {
    BULKHEAD_ASSIGN_OR_RETURN(const FolderSurvey folder, FolderSurvey::Of(name, 0));
    return FolderSpec(folder, name, folder.files() == 0 ? RecordsIn(name) : "", options);
  }
  if (IsImageList(found.files.front())) {
    if (found.files.size() > 1) {
      return Unclear(
          absl::StrCat(name, ": is an image list; only one list can be streamed at a time"));
    }
    if (!found.files.front().is_object()) return ListSpec(name, name, options);
    BULKHEAD_ASSIGN_OR_RETURN(const ObjectCopy copy,
                              ObjectCopy::Make(*found.objects, found.files.front().found(), {}));
    auto spec = ListSpec(copy.path(), data[0], options);
    return spec.ok() ? std::move(spec) : copy.AsOfObject(spec.status());
  }
  const InspectedFile& first = found.first();
  if (first.size_bytes() == 0) {
    return MakeError(
        absl::StatusCode::kInvalidArgument, reason::kFileEmpty,
        absl::StrCat(name, ": is empty, it holds no record; was it written to the end?"),
        {{"file", name}});
  }
  return RecordSpec(data, first, options, others);
}

}  // namespace bulkhead::tools
