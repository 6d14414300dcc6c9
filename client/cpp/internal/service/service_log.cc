#include "client/cpp/internal/service/service_log.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "bulkhead/error.h"
#include "client/cpp/internal/service/embedded_options.h"

namespace bulkhead::client_internal {
namespace {

constexpr size_t kMostLogs = 16;
constexpr char kPrefix[] = "embedded-";
constexpr char kSuffix[] = ".log";

std::string Variable(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? "" : value;
}

// In the cache folder that the service takes (server/app/server_config.cc); empty: it has none.
std::string LogFolder(const std::string& cache_dir) {
  std::string base = cache_dir;
  if (base.empty()) {
    const std::string cache = Variable("XDG_CACHE_HOME");
    const std::string home = Variable("HOME");
    if (cache.empty() && home.empty()) return "";
    base = absl::StrCat(cache.empty() ? home + "/.cache" : cache, "/bulkhead");
  }
  std::error_code error;
  return absl::StrCat(std::filesystem::absolute(base, error).string(), "/logs");
}

// The folder and those above it, for this user alone: the service wants its cache so.
bool Make(const std::filesystem::path& folder) {
  std::error_code error;
  if (std::filesystem::is_directory(folder, error)) return true;
  return folder.has_relative_path() && Make(folder.parent_path()) &&
         (mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST);
}

bool IsOwn(const std::string& folder) {
  struct stat info {};
  return lstat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid();
}

// Leaves room for one more log.
void RemoveOldest(const std::string& folder) {
  std::error_code error;
  std::vector<std::pair<std::filesystem::file_time_type, std::filesystem::path>> logs;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!absl::StartsWith(name, kPrefix) || !absl::EndsWith(name, kSuffix)) continue;
    std::error_code gone;
    logs.emplace_back(entry->last_write_time(gone), entry->path());
  }
  std::sort(logs.begin(), logs.end());
  for (size_t i = 0; i + kMostLogs <= logs.size(); ++i) {
    std::filesystem::remove(logs[i].second, error);
  }
}

// Of a spec that is wrong, or of the program itself, no log knows more.
bool IsLogged(absl::string_view reason) {
  return reason != "SPEC_INVALID" && reason != client_reason::kLoaderClosed &&
         reason != client_reason::kSlotsExhausted;
}

}  // namespace

std::string NewServiceLog(const std::string& id, const std::string& cache_dir) {
  const std::string folder = LogFolder(cache_dir);
  if (folder.empty() || !Make(folder) || !IsOwn(folder)) return "";
  RemoveOldest(folder);
  return absl::StrCat(folder, "/", kPrefix, id, kSuffix);
}

absl::Status ForProgram(const absl::Status& error, const std::string& log) {
  std::string message = InOptions(error.message());
  constexpr char kTold[] = "; the log of the embedded service is ";
  if (!log.empty() && IsLogged(ErrorReason(error)) && access(log.c_str(), F_OK) == 0 &&
      !absl::StrContains(message, kTold)) {
    absl::StrAppend(&message, kTold, log);
  }
  absl::Status told(error.code(), message);
  error.ForEachPayload([&told](absl::string_view type, const absl::Cord& payload) {
    told.SetPayload(type, payload);
  });
  return told;
}

}  // namespace bulkhead::client_internal
