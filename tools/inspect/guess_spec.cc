#include "tools/inspect/guess_spec.h"

#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <initializer_list>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/base/error.h"
#include "server/base/paths/object_url.h"
#include "tools/common/json.h"
#include "tools/common/near_path.h"
#include "tools/inspect/folder_survey.h"
#include "tools/inspect/list_spec.h"
#include "tools/inspect/record_spec.h"
#include "tools/inspect/spec_text.h"
#include "tools/inspect/tar_samples.h"

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

// The source that a spec of the objects at `url` has, by its ending.
std::string SourceOfUrl(const std::string& url) {
  const std::string path(absl::StripSuffix(WithoutQuery(url), "/"));
  const std::string last = path.substr(path.rfind('/') + 1);
  const std::string shown = ShownUrl(url);
  const auto ends = [&](std::initializer_list<absl::string_view> endings) {
    return std::any_of(endings.begin(), endings.end(),
                       [&](absl::string_view ending) { return absl::EndsWith(last, ending); });
  };
  if (ends({".tar"})) return absl::StrCat("{tar: {files: \"", shown, "\"}}");
  if (ends({".txt", ".csv", ".tsv", ".lst"})) {
    return absl::StrCat("{image_list: {path: \"", shown, "\"}}");
  }
  const bool is_folder = last.find_first_of(".*?[") == last.npos || absl::EndsWith(url, "/");
  if (is_folder) return absl::StrCat("{image_folder: {path: \"", shown, "\"}}");
  return absl::StrCat("{tfrecord: {files: \"", shown, "\"}}");
}

absl::StatusOr<std::string> FolderSpec(const std::string& path, const GuessOptions& options) {
  BULKHEAD_ASSIGN_OR_RETURN(const FolderSurvey folder, FolderSurvey::Of(path, 0));
  if (folder.files() == 0) return Unclear(absl::StrCat(path, ": holds no images", RecordsIn(path)));
  return WithStages(absl::StrCat("source:\n  image_folder: {path: ", Quoted(AbsolutePath(path)),
                                 folder.has_classes() ? "" : ", unlabeled: true", "}\n"),
                    folder.has_classes() ? "label" : "", options);
}

std::vector<std::string> Matches(const std::string& pattern) {
  glob_t result{};
  std::vector<std::string> paths;
  if (glob(pattern.c_str(), 0, nullptr, &result) == 0) {
    paths.assign(result.gl_pathv, result.gl_pathv + result.gl_pathc);
  }
  globfree(&result);
  return paths;
}

// Text has no zero byte; the length of a TFRecord's first record does. A compressed file begins
// with the magic number of GZIP, or with one of the usual three of ZLIB.
bool LooksLikeText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string begin(512, '\0');
  file.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  begin.resize(static_cast<size_t>(file.gcount()));
  for (const char* magic : {"\x1f\x8b", "\x78\x01", "\x78\x9c", "\x78\xda"}) {
    if (absl::StartsWith(begin, magic)) return false;
  }
  return begin.find('\0') == std::string::npos;
}

bool IsEmptyFile(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && fs::file_size(path, error) == 0;
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

absl::StatusOr<std::vector<std::string>> FilesOf(const std::vector<std::string>& data) {
  std::vector<std::string> files;
  std::error_code error;
  for (const std::string& pattern : data) {
    if (IsObjectUrl(pattern)) {
      return Unclear(absl::StrCat(ShownUrl(pattern),
                                  ": data in object stores are not looked at without a spec, since "
                                  "this command reads files only; write a spec with "
                                  "`source: ",
                                  SourceOfUrl(pattern),
                                  "`, or copy a part of it to this host and inspect that"));
    }
    const std::vector<std::string> matches =
        fs::exists(pattern, error) ? std::vector<std::string>{pattern} : Matches(pattern);
    if (matches.empty()) {
      return MakeError(absl::StatusCode::kNotFound, reason::kFileNotFound,
                       absl::StrCat(pattern,
                                    ": there is no such file or folder, and no file "
                                    "matches it as a glob; ",
                                    NearPath(pattern)));
    }
    files.insert(files.end(), matches.begin(), matches.end());
  }
  if (files.empty()) return Unclear("no data was named");
  for (const std::string& file : files) {
    if (fs::is_directory(file, error) || fs::is_regular_file(file, error)) continue;
    return Unclear(absl::StrCat(file, ": is neither a file nor a folder"));
  }
  return files;
}

bool IsImageList(const std::string& path) {
  return !IsNamedTfRecord(path) && !IsTar(path) && LooksLikeText(path);
}

absl::StatusOr<std::string> GuessSpec(const std::vector<std::string>& data,
                                      const GuessOptions& options, std::set<std::string>* others) {
  BULKHEAD_ASSIGN_OR_RETURN(const std::vector<std::string> files, FilesOf(data));
  std::error_code error;
  if (fs::is_directory(files.front(), error)) {
    if (files.size() > 1) return Unclear("name one folder, or files of records, not both");
    return FolderSpec(files.front(), options);
  }
  if (IsImageList(files.front())) {
    if (files.size() > 1) {
      return Unclear(absl::StrCat(files.front(),
                                  ": is an image list; only one list can be streamed at a time"));
    }
    return ListSpec(files.front(), options);
  }
  // A shard without records is nothing unusual; one that has some tells what is in them.
  const auto first = std::find_if_not(files.begin(), files.end(), IsEmptyFile);
  if (first == files.end()) {
    return MakeError(
        absl::StatusCode::kInvalidArgument, reason::kFileEmpty,
        absl::StrCat(files.front(), ": is empty, it holds no record; was it written to the end?"),
        {{"file", files.front()}});
  }
  return RecordSpec(data, *first, options, others);
}

}  // namespace bulkhead::tools
