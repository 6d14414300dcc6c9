#include "tools/inspect/folder_survey.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/byte_size.h"
#include "server/base/error.h"
#include "server/base/record_name.h"
#include "tools/common/count_text.h"
#include "tools/inspect/image_header.h"

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
  FolderSurvey survey;
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
    std::error_code unknown;  // of a link that leads nowhere, of a pipe
    const uintmax_t size = entry->file_size(unknown);
    if (!hidden) survey.Take(folder, {path.lexically_relative(folder)}, unknown ? 0 : size);
  }
  if (error) {
    return MakeError(absl::StatusCode::kInvalidArgument, reason::kFileUnreadable,
                     absl::StrCat(folder, ": ", error.message()), {{"file", folder}});
  }
  const std::vector<uint64_t> chosen = survey.Chosen(headers);
  survey.LookAt(folder, chosen, [&](uint64_t place) {
    return ReadImageHead((fs::path(folder) / survey.all_[chosen[place]].name).string());
  });
  return survey;
}

absl::StatusOr<FolderSurvey> FolderSurvey::Of(const StoredFiles& stored, const std::string& folder,
                                              uint64_t headers) {
  FolderSurvey survey;
  for (uint64_t i = 0; i < stored.table().count(); ++i) {
    BULKHEAD_ASSIGN_OR_RETURN(const ObjectTable::Entry entry, stored.table().Get(i));
    const fs::path name = entry.name;
    const bool is_hidden = std::any_of(name.begin(), name.end(), [](const fs::path& part) {
      return absl::StartsWith(part.string(), ".");
    });
    if (is_hidden) continue;
    if (name.has_parent_path()) survey.classes_[name.begin()->string()];
    if (name.has_filename()) survey.Take(folder, {name, i}, entry.size_bytes);
  }
  const std::vector<uint64_t> chosen = survey.Chosen(headers);
  StoredFiles::Reader reader(stored,
                             [&](uint64_t place) { return survey.all_[chosen[place]].number; });
  reader.WillRead(0, chosen.size());
  survey.LookAt(folder, chosen, [&](uint64_t place) { return reader.Read(place); });
  return survey;
}

void FolderSurvey::Take(const std::string& folder, Image file, uint64_t size) {
  const std::string ending = file.name.extension().string();
  const std::string extension = ending.empty() ? "" : absl::AsciiStrToLower(ending.substr(1));
  if (UsualExtensions().count(extension) == 0) {
    if (others_++ == 0) other_ = (fs::path(folder) / file.name).string();
    return;
  }
  ++files_;
  bytes_ += size;
  ++classes_[file.name.has_parent_path() ? file.name.begin()->string() : ""];
  ++extensions_[extension];
  all_.push_back(std::move(file));
}

std::vector<uint64_t> FolderSurvey::Chosen(uint64_t headers) {
  std::sort(all_.begin(), all_.end(),
            [](const Image& a, const Image& b) { return a.name < b.name; });
  const uint64_t wanted = std::min<uint64_t>(headers, all_.size());
  std::vector<uint64_t> chosen;
  for (uint64_t i = 0; i < wanted; ++i) chosen.push_back(i * all_.size() / wanted);
  for (uint64_t i = 0; i < std::min<uint64_t>(wanted, SampleRows::kMost); ++i) chosen.push_back(i);
  return chosen;
}

void FolderSurvey::LookAt(const std::string& folder, const std::vector<uint64_t>& chosen,
                          absl::FunctionRef<absl::StatusOr<std::string>(uint64_t place)> read) {
  // Behind them stand the first ones, at most as many.
  const uint64_t wanted = chosen.size() - std::min<uint64_t>(chosen.size() / 2, SampleRows::kMost);
  for (uint64_t i = 0; i < chosen.size(); ++i) {
    const fs::path& name = all_[chosen[i]].name;
    if (i < wanted) {
      images_.TakeFile(read(i), (fs::path(folder) / name).string());
    } else {
      first_.Add(name.string(), {{"image", ImageText(read(i))}});
    }
  }
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
  return JsonObject()
      .Add("files", files_)
      .Add("bytes", bytes_)
      .Add("other_files", others_)
      .Add("classes", classes_)
      .Add("extensions", extensions_)
      .Add("looked_at", images_.Json())
      .Add("first_samples", first_.Json());
}

}  // namespace bulkhead::tools
