#include "tools/inspect/folder_survey.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/byte_size.h"
#include "server/base/error.h"
#include "server/base/record_name.h"
#include "tools/common/count_text.h"
#include "tools/inspect/image_header.h"
#include "tools/inspect/usual_extensions.h"

namespace bulkhead::tools {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostClassesShown = 20;

std::string Counted(const std::map<std::string, uint64_t>& counts) {
  return absl::StrJoin(counts, ", ", [](std::string* out, const auto& entry) {
    absl::StrAppend(out, entry.second, " .", entry.first);
  });
}

}  // namespace

absl::StatusOr<FolderSurvey> FolderSurvey::Of(const std::string& folder, uint64_t headers) {
  const std::set<std::string>& usual = UsualExtensions();
  FolderSurvey survey;
  std::vector<fs::path> images;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, fs::directory_options::follow_directory_symlink,
                                         error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    const fs::path path = entry->path();
    const bool hidden = path.filename().string().front() == '.';
    if (entry->is_directory(error)) {
      if (hidden) entry.disable_recursion_pending();
      // A class without images counts: it has its label all the same.
      if (!hidden && entry.depth() == 0) survey.classes_[path.filename().string()];
      continue;
    }
    const std::string ending = path.extension().string();
    const std::string extension = ending.empty() ? "" : absl::AsciiStrToLower(ending.substr(1));
    if (hidden || usual.count(extension) == 0) {
      if (!hidden && survey.others_++ == 0) survey.other_ = path.string();
      continue;
    }
    const fs::path relative = path.lexically_relative(folder);
    ++survey.files_;
    std::error_code unknown;  // of a link that leads nowhere, of a pipe
    if (const uintmax_t size = entry->file_size(unknown); !unknown) survey.bytes_ += size;
    ++survey.classes_[entry.depth() == 0 ? "" : relative.begin()->string()];
    ++survey.extensions_[extension];
    images.push_back(path);
  }
  if (error) {
    return MakeError(absl::StatusCode::kInvalidArgument, reason::kFileUnreadable,
                     absl::StrCat(folder, ": ", error.message()), {{"file", folder}});
  }
  std::sort(images.begin(), images.end());
  const uint64_t wanted = std::min<uint64_t>(headers, images.size());
  for (uint64_t i = 0; i < wanted; ++i) {
    survey.images_.TakeFile(images[i * images.size() / wanted].string());
  }
  for (uint64_t i = 0; i < std::min<uint64_t>(wanted, SampleRows::kMost); ++i) {
    survey.first_.Add(images[i].lexically_relative(folder).string(),
                      {{"image", ImageFileText(images[i].string())}});
  }
  return survey;
}

bool FolderSurvey::has_classes() const {
  const auto loose = classes_.find("");
  return loose == classes_.end() ? !classes_.empty() : loose->second < files_;
}

std::string FolderSurvey::Text() const {
  if (files_ == 0) {
    return absl::StrCat("no images",
                        others_ > 0 ? absl::StrCat("; ", CountText(others_, "other file"),
                                                   ", such as ", Printable(other_))
                                    : "",
                        "\n");
  }
  std::string text = absl::StrCat(CountText(files_, "image"), ", ", FormatBytes(bytes_), ": ",
                                  Counted(extensions_), "\n");
  if (others_ > 0) {
    absl::StrAppend(&text, CountText(others_, "other file"), ", such as ", Printable(other_), "\n");
  }
  if (images_.count() > 0) {
    absl::StrAppend(&text, "of ", images_.count(), " looked at: ", images_.Text(), "\n");
  }
  if (classes_.size() == 1 && classes_.count("") > 0) {
    return text + "no sub-folders, so no classes\n" + first_.Text();
  }
  absl::StrAppend(&text, CountText(classes_.size() - classes_.count(""), "class", "classes"),
                  ":\n");
  size_t shown = 0;
  for (const auto& [name, count] : classes_) {
    if (shown++ == kMostClassesShown) break;
    absl::StrAppend(&text, "  ", count, "  ",
                    name.empty() ? "(in no sub-folder: no sample)" : Printable(name), "\n");
  }
  if (classes_.size() > kMostClassesShown) {
    absl::StrAppend(&text, "  and ", classes_.size() - kMostClassesShown, " more\n");
  }
  return text + first_.Text();
}

JsonObject FolderSurvey::Json() const {
  JsonObject classes;
  for (const auto& [name, count] : classes_) classes.Add(name, count);
  JsonObject extensions;
  for (const auto& [name, count] : extensions_) extensions.Add(name, count);
  return JsonObject()
      .Add("files", files_)
      .Add("bytes", bytes_)
      .Add("other_files", others_)
      .Add("classes", classes)
      .Add("extensions", extensions)
      .Add("looked_at", images_.Json())
      .Add("first_samples", first_.Json());
}

}  // namespace bulkhead::tools
