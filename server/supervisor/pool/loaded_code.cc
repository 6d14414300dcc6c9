#include "server/supervisor/pool/loaded_code.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/arena/code_files.h"
#include "server/base/byte_size.h"
#include "server/base/error.h"
#include "server/base/record_name.h"

namespace bulkhead {

absl::Status LoadedCode::Note(const Files& files) {
  for (const v1::CodeFile& file : files) {
    if (!IsCodeDigest(file.digest())) {
      return MakeError(absl::StatusCode::kInternal, reason::kInternal,
                       absl::StrCat("a worker says that ", Printable(file.name()),
                                    " has a digest which is none; a stage may have overwritten "
                                    "its memory"));
    }
    if (!IsCodeName(file.name())) {
      return MakeError(
          absl::StatusCode::kFailedPrecondition, reason::kStageUnusable,
          absl::StrCat("a stage loaded code from a file whose name cannot be stored: '",
                       Printable(absl::string_view(file.name()).substr(0, 200)),
                       "'; give it a shorter name of printable UTF-8"));
    }
    if (digests_.size() >= kMostCodeFiles && digests_.count(file.name()) == 0) {
      return MakeError(absl::StatusCode::kFailedPrecondition, reason::kStageUnusable,
                       absl::StrCat("the stages load more than ", kMostCodeFiles,
                                    " files below --python-path and --native-path, each of which "
                                    "is watched for changes; install files that you do not edit "
                                    "(below site-packages), or move them out of these folders"));
    }
    const auto [known, is_new] = digests_.emplace(file.name(), file.digest());
    if (is_new) {
      on_new_(file);
    } else if (known->second != file.digest()) {
      return CodeChanged(file.name(), known->second, file.digest());
    }
  }
  return absl::OkStatus();
}

void LoadedCode::OnBound(const std::set<std::string>& names) {
  if (answer_.has_value()) return;
  std::vector<v1::CodeFile> files;
  for (const std::string& name : names) {
    files.emplace_back().set_name(name);
    files.back().set_digest(digests_.at(name));
  }
  Tell(std::move(files));
}

std::vector<v1::CodeFile> LoadedCode::files() const {
  std::vector<v1::CodeFile> files;
  for (const auto& [name, digest] : digests_) {
    files.emplace_back().set_name(name);
    files.back().set_digest(digest);
  }
  return files;
}

bool LoadedCode::DiffersFrom(const std::vector<v1::CodeFile>& files) const {
  return std::ranges::any_of(files, [this](const v1::CodeFile& file) {
    const auto known = digests_.find(file.name());
    return known != digests_.end() && known->second != file.digest();
  });
}

void LoadedCode::WhenKnown(Told told) {
  if (answer_.has_value()) {
    told(*answer_);
  } else {
    waiting_.push_back(std::move(told));
  }
}

absl::Status ImportError(const PipelineConfig& config, const WorkerEnd& end) {
  std::string what;
  if (end.cause == v1::EXIT_CAUSE_HUNG) {
    what = absl::StrCat(" does not finish: ", end.reason, "; find out what it waits for");
  } else if (end.cause == v1::EXIT_CAUSE_PROTOCOL) {
    what = absl::StrCat(" disturbs the worker: ", end.reason,
                        "; it must leave the worker's descriptors alone");
  } else {
    what = absl::StrCat(" takes more than a worker's quota of ", FormatBytes(config.quota_bytes),
                        ": ", end.reason,
                        "; give workers more with --worker-quota: `bulkhead explain` with a large "
                        "one says how much they hold");
  }
  return MakeError(absl::StatusCode::kFailedPrecondition, reason::kStageUnusable,
                   absl::StrCat("loading ", config.user_code, what));
}

}  // namespace bulkhead
