#include "tools/inspect/inspected_data.h"

#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/paths/object_url.h"
#include "server/data/found_objects.h"
#include "server/data/published_index.h"
#include "server/source/objects.h"
#include "tools/common/near_path.h"
#include "tools/local/local_objects.h"
#include "tools/local/parts_fetcher.h"

namespace bulkhead::tools {
namespace {

namespace fs = std::filesystem;

// Of an object that are fetched at first.
constexpr uint64_t kFirstBytes = uint64_t{1} << 20;
constexpr size_t kHeadBytes = 512;

absl::Status NoSuchData(absl::string_view message) {
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kSpecInvalid, message);
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

absl::Status AddFiles(const std::string& pattern, InspectedData& data) {
  std::error_code error;
  const std::vector<std::string> matches =
      fs::exists(pattern, error) ? std::vector<std::string>{pattern} : Matches(pattern);
  if (matches.empty()) {
    return MakeError(absl::StatusCode::kNotFound, reason::kFileNotFound,
                     absl::StrCat(pattern,
                                  ": there is no such file or folder, and no file "
                                  "matches it as a glob; ",
                                  NearPath(pattern)));
  }
  for (const std::string& file : matches) {
    if (!fs::is_directory(file, error) && !fs::is_regular_file(file, error)) {
      return NoSuchData(absl::StrCat(file, ": is neither a file nor a folder"));
    }
    data.files.emplace_back(file);
  }
  return absl::OkStatus();
}

// The objects that `url` names, or else the folder.
absl::Status AddObjects(const std::string& url, const FindProgressFn& progress,
                        InspectedData& data) {
  const bool is_bucket = ParseFolderUrl(url).ok();
  const auto list = [&]() -> absl::Status {
    BULKHEAD_ASSIGN_OR_RETURN(data.folder, StoredFiles::OfFolder(data.objects, url, progress));
    return absl::OkStatus();
  };
  if (is_bucket && (absl::EndsWith(url, "/") || !ParseObjectUrl(url).ok())) return list();
  BULKHEAD_RETURN_IF_ERROR(ParseObjectUrl(url).status());
  auto found = data.objects->Find(url, [] { return false; });
  const bool is_glob = is_bucket && url.find_first_of("*?[") != std::string::npos;
  if (is_bucket && !is_glob && absl::IsNotFound(found.status())) {
    const absl::Status listed = list();
    const auto info = GetErrorInfo(listed);
    if (!info.has_value() || info->reason != reason::kFileNotFound) return listed;
    return MakeError(
        absl::StatusCode::kNotFound, reason::kFileNotFound,
        absl::StrCat(ShownUrl(url), ": there is no such object; as a folder: ", listed.message()),
        {{"file", ShownUrl(url)}});
  }
  BULKHEAD_RETURN_IF_ERROR(found.status());
  for (internal::v1::ResolvedFile& object : *found) {
    if (is_glob && absl::EndsWith(object.object().url(), kPublishedEnding)) continue;
    data.files.emplace_back(data.objects, std::move(object));
  }
  if (!data.files.empty()) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrCat("no object matches ", ShownUrl(url), "; wildcards do not cross `/`"));
}

}  // namespace

InspectedFile::InspectedFile(std::shared_ptr<ObjectFetcher> objects,
                             internal::v1::ResolvedFile found)
    : name_(ShownUrl(found.object().url())),
      objects_(std::move(objects)),
      found_(std::move(found)) {}

uint64_t InspectedFile::size_bytes() const {
  if (is_object()) return found_.size_bytes();
  std::error_code error;
  const uint64_t size = fs::file_size(name_, error);
  return error ? 0 : size;
}

absl::Status InspectedFile::Read(absl::FunctionRef<absl::Status(const DataFile& file)> read) const {
  if (!is_object()) {
    BULKHEAD_ASSIGN_OR_RETURN(const DataFile file, DataFile::Open(name_, name_));
    return read(file);
  }
  if (size_bytes() == 0) {
    return MakeError(absl::StatusCode::kInvalidArgument, reason::kFileEmpty,
                     absl::StrCat(name_, ": is empty; was it written to the end?"),
                     {{"file", name_}});
  }
  internal::v1::ResolvedSource source;
  *source.add_files() = found_;
  const auto fetcher = FetchHere(std::make_shared<const FoundObjects>(objects_.get(), source));
  std::vector<std::unique_ptr<PartsFetcher::Request>> here;
  std::vector<std::pair<uint64_t, uint64_t>> fetched;
  for (uint64_t more = kFirstBytes;; more *= 2) {
    const auto file = DataFile::OpenObject(ObjectOf(found_), name_);
    const absl::Status status = file.ok() ? read(*file) : file.status();
    const std::optional<MissingPart> missing = MissingPartOf(status);
    // Blocks that were fetched and are not there: the disk is full, or damaged.
    const bool is_lost =
        missing.has_value() && std::any_of(fetched.begin(), fetched.end(), [&](const auto& range) {
          return range.first <= missing->part.begin && missing->part.begin < range.second;
        });
    if (!missing.has_value() || is_lost) return status;
    const uint64_t end =
        std::min(found_.size_bytes(), std::max(missing->part.end, missing->part.begin + more));
    FoundObjects::Wanted wanted;
    wanted.Add()->set_key(missing->part.key);
    wanted[0].add_bounds(missing->part.begin);
    wanted[0].add_bounds(end);
    fetched.emplace_back(missing->part.begin, end);
    here.push_back(fetcher->Fetch(wanted, internal::v1::FetchParts::TRUST_CHECKSUMS));
    BULKHEAD_RETURN_IF_ERROR(here.back()->Await());
  }
}

std::string InspectedFile::Head() const {
  std::string head(kHeadBytes, '\0');
  size_t size = 0;
  const absl::Status status = Read([&](const DataFile& file) -> absl::Status {
    BULKHEAD_ASSIGN_OR_RETURN(size, file.ReadAt(0, head.data(), head.size()));
    return absl::OkStatus();
  });
  head.resize(status.ok() ? size : 0);
  return head;
}

const InspectedFile& InspectedData::first() const {
  const auto found = std::find_if(files.begin(), files.end(), [](const InspectedFile& file) {
    std::error_code error;
    return file.size_bytes() > 0 || (!file.is_object() && fs::is_directory(file.name(), error));
  });
  return found == files.end() ? files.front() : *found;
}

absl::StatusOr<InspectedData> FindData(const std::vector<std::string>& names,
                                       const FindProgressFn& progress) {
  InspectedData data;
  for (const std::string& name : names) {
    if (LooksLikeUrl(name)) return ParseObjectUrl(name).status();
    if (!IsObjectUrl(name)) {
      BULKHEAD_RETURN_IF_ERROR(AddFiles(name, data));
      continue;
    }
    if (data.objects == nullptr) {
      BULKHEAD_ASSIGN_OR_RETURN(data.objects, MakeLocalObjects());
    }
    BULKHEAD_RETURN_IF_ERROR(AddObjects(name, progress, data));
  }
  if (names.empty()) return NoSuchData("no data was named");
  std::error_code error;
  const bool is_folder = data.folder != nullptr || (!data.files[0].is_object() &&
                                                    fs::is_directory(data.files[0].name(), error));
  if (is_folder && names.size() > 1) {
    return NoSuchData("name one folder, or files of records, not both");
  }
  return data;
}

}  // namespace bulkhead::tools
