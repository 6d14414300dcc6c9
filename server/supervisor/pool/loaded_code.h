#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "bulkhead/v1/loader.pb.h"
#include "server/supervisor/pool/pipeline_config.h"
#include "server/supervisor/worker/worker_process.h"

namespace bulkhead {

// The user files that the workers of one pool have loaded. All workers must load the same content.
// Lives on the supervisor's thread.
class LoadedCode {
 public:
  using Files = google::protobuf::RepeatedPtrField<v1::CodeFile>;
  // Receives the files that the first worker had loaded when it was bound, sorted by name, or the
  // reason why no worker will be bound.
  using Told = std::function<void(const absl::StatusOr<std::vector<v1::CodeFile>>&)>;

  // `on_new` is called for each file that no worker had loaded before.
  explicit LoadedCode(std::function<void(const v1::CodeFile&)> on_new)
      : on_new_(std::move(on_new)) {}

  // Notes files that a worker has loaded. FAILED_PRECONDITION: CODE_CHANGED if another worker
  // loaded a file of that name with different content; STAGE_UNUSABLE above kMostCodeFiles, and for
  // a name that is not IsCodeName.
  absl::Status Note(const Files& files);
  // A worker was bound with these files, which were noted before. Those of the first worker are
  // reported to the waiting callers.
  void OnBound(const std::set<std::string>& names);
  // No worker will be bound any more.
  void Fail(const absl::Status& status) {
    if (!answer_.has_value() || answer_->ok()) Tell(status);
  }
  // Digests by name.
  const std::map<std::string, std::string>& digests() const { return digests_; }
  // The same as files.
  std::vector<v1::CodeFile> files() const;
  // Whether these files differ from what the workers run.
  bool DiffersFrom(const std::vector<v1::CodeFile>& files) const;
  // Calls `told` with the first worker's files: now, or as soon as they are known.
  void WhenKnown(Told told);

 private:
  void Tell(absl::StatusOr<std::vector<v1::CodeFile>> answer) {
    answer_ = std::move(answer);
    for (const Told& told : std::exchange(waiting_, {})) told(*answer_);
  }

  const std::function<void(const v1::CodeFile&)> on_new_;
  std::map<std::string, std::string> digests_;
  std::optional<absl::StatusOr<std::vector<v1::CodeFile>>> answer_;
  std::vector<Told> waiting_;
};

// A worker exceeded its quota, hung, or broke its protocol while it imported user code. Another one
// would too.
absl::Status ImportError(const PipelineConfig& config, const WorkerEnd& end);

}  // namespace bulkhead
