#include "server/os/files/glob.h"

#include <dirent.h>
#include <fnmatch.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/os/files/filesystem.h"
#include "server/os/files/storage_watch.h"

namespace bulkhead {
namespace {

// Whether a component is more than a name. A bracket that nothing closes is a character.
bool IsPattern(const std::string& component) {
  bool open = false;
  for (size_t i = 0; i < component.size(); ++i) {
    const char c = component[i];
    if (c == '*' || c == '?' || (c == ']' && open)) return true;
    if (c == '[') open = true;
    if (c == '\\') ++i;
  }
  return false;
}

std::string Unescaped(const std::string& component) {
  std::string name;
  for (size_t i = 0; i < component.size(); ++i) {
    if (component[i] == '\\' && i + 1 < component.size()) ++i;
    name += component[i];
  }
  return name;
}

// Matches of all expansions under way.
std::atomic<uint64_t> paths_of_all{0};

// Follows a pattern from component to component.
class Expansion {
 public:
  Expansion(const std::string& pattern, const GlobLimits& limits, const MayEnterFn& may_enter)
      : pattern_(pattern), limits_(limits), may_enter_(may_enter) {}
  ~Expansion() { paths_of_all -= counted_; }
  Expansion(const Expansion&) = delete;
  Expansion& operator=(const Expansion&) = delete;

  // Every path so far goes on with `text`, in which nothing is a pattern.
  void Append(const std::string& text) {
    for (std::string& path : paths_) path += text;
    exist_ = exist_ && text.empty();
  }

  // Every path so far, which is a folder, goes on with those of its entries that match.
  absl::Status Match(const std::string& component, bool is_last) {
    std::vector<std::string> matches;
    for (const std::string& folder : paths_) {
      BULKHEAD_RETURN_IF_ERROR(MatchIn(folder, component, is_last, matches));
    }
    paths_ = std::move(matches);
    exist_ = true;
    return absl::OkStatus();
  }

  // The paths that exist, sorted.
  absl::StatusOr<std::vector<std::string>> Take() {
    // Those of Match lie in folders that it looked into.
    std::set<std::string> folders;
    for (const std::string& path : exist_ ? std::vector<std::string>() : paths_) {
      const std::string folder = path.substr(0, path.rfind('/') + 1);
      if (!folders.insert(folder).second) continue;
      BULKHEAD_RETURN_IF_ERROR(Enter(folder));
    }
    const auto is_missing = [](const std::string& path) {
      const StorageCall call(path);
      struct stat info;
      return lstat(path.c_str(), &info) != 0;
    };
    if (!exist_)
      paths_.erase(std::remove_if(paths_.begin(), paths_.end(), is_missing), paths_.end());
    std::sort(paths_.begin(), paths_.end());
    return std::move(paths_);
  }

 private:
  absl::Status MatchIn(const std::string& folder, const std::string& component, bool is_last,
                       std::vector<std::string>& matches) {
    BULKHEAD_RETURN_IF_ERROR(Enter(folder));
    const StorageCall call(folder.empty() ? "." : folder);
    if (!call.status().ok()) return call.status();
    const std::unique_ptr<DIR, int (*)(DIR*)> listing(
        opendir(folder.empty() ? "." : folder.c_str()), closedir);
    if (listing == nullptr) {
      // In a folder that is missing nothing matches; one that cannot be read may hide what would.
      if (errno == ENOENT || errno == ENOTDIR) return absl::OkStatus();
      // Which folder it is, is not for everybody to know.
      if (errno == ELOOP) {
        return absl::FailedPreconditionError(absl::StrCat(
            "a folder of ", pattern_, ": its symbolic links lead in a circle; repair them"));
      }
      return absl::PermissionDeniedError(absl::StrCat("cannot read a folder of ", pattern_));
    }
    if (!MayStay(dirfd(listing.get()))) {
      return absl::PermissionDeniedError(absl::StrCat("cannot read a folder of ", pattern_));
    }
    while (const dirent* entry = readdir(listing.get())) {
      const bool may_be_folder =
          entry->d_type == DT_DIR || entry->d_type == DT_LNK || entry->d_type == DT_UNKNOWN;
      if (++entries_ > limits_.entries) return TooMany("entries to look at", limits_.entries);
      if (!is_last && !may_be_folder) continue;
      const absl::string_view name = entry->d_name;
      if (name == "." || name == "..") continue;
      if (fnmatch(component.c_str(), entry->d_name, FNM_PERIOD) != 0) continue;
      if (matches.size() == limits_.paths) return TooMany("paths", limits_.paths);
      if (matches.size() >= counted_) {
        ++counted_;
        if (++paths_of_all > limits_.paths_of_all && counted_ > limits_.few_paths) {
          return absl::ResourceExhaustedError(absl::StrCat(
              "the pattern gives more than ", limits_.few_paths, " paths, and those of others ",
              limits_.paths_of_all, " at the same time; try again"));
        }
      }
      matches.push_back(absl::StrCat(folder, entry->d_name));
    }
    return absl::OkStatus();
  }

  absl::Status Enter(const std::string& folder) const {
    return may_enter_ == nullptr ? absl::OkStatus() : may_enter_(folder);
  }

  // Whether the folder that was opened may be entered: since Enter another one may stand there.
  bool MayStay(int folder) const {
    if (may_enter_ == nullptr) return true;
    std::error_code error;
    const auto opened =
        std::filesystem::read_symlink(absl::StrCat("/proc/self/fd/", folder), error);
    return !error && may_enter_(opened.string()).ok();
  }

  static absl::Status TooMany(const std::string& of_what, uint64_t limit) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the pattern gives more than ", limit, " ", of_what,
                     "; is there a link that leads to a folder above it?"));
  }

  const std::string& pattern_;
  const GlobLimits limits_;
  const MayEnterFn& may_enter_;
  uint64_t entries_ = 0;
  uint64_t counted_ = 0;  // of paths_of_all: the most matches of a component
  std::vector<std::string> paths_ = {""};
  bool exist_ = true;  // all of them
};

}  // namespace

absl::StatusOr<std::vector<std::string>> ExpandGlob(const std::string& pattern,
                                                    const GlobLimits& limits,
                                                    const MayEnterFn& may_enter) {
  if (StatFile(pattern).ok()) return std::vector<std::string>{pattern};
  Expansion expansion(pattern, limits, may_enter);
  for (size_t begin = 0; begin < pattern.size();) {
    const size_t end = std::min(pattern.find('/', begin), pattern.size());
    const size_t next = std::min(pattern.find_first_not_of('/', end), pattern.size());
    const std::string component = pattern.substr(begin, end - begin);
    if (IsPattern(component)) {
      BULKHEAD_RETURN_IF_ERROR(expansion.Match(component, /*is_last=*/end == pattern.size()));
    } else {
      expansion.Append(Unescaped(component));
    }
    expansion.Append(pattern.substr(end, next - end));
    begin = next;
  }
  return expansion.Take();
}

}  // namespace bulkhead
