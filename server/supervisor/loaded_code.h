#ifndef BULKHEAD_SERVER_SUPERVISOR_LOADED_CODE_H_
#define BULKHEAD_SERVER_SUPERVISOR_LOADED_CODE_H_

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "bulkhead/v1/loader.pb.h"

namespace bulkhead {

// The user's files that the workers of one pool have loaded. All workers must have loaded the same.
// Lives on the supervisor's thread.
class LoadedCode {
 public:
  using Files = google::protobuf::RepeatedPtrField<v1::CodeFile>;
  // The files that the first worker had loaded when it was bound, sorted by name, or why no worker
  // will be.
  using Told = std::function<void(const absl::StatusOr<std::vector<v1::CodeFile>>&)>;

  // `on_new` hears of each file that no worker had loaded before.
  explicit LoadedCode(std::function<void(const v1::CodeFile&)> on_new)
      : on_new_(std::move(on_new)) {}

  // A worker has loaded these. FAILED_PRECONDITION (CODE_CHANGED) when another one loaded something
  // else of the same name; (STAGE_UNUSABLE) beyond kMostCodeFiles, and for what is no IsCodeName.
  absl::Status Note(const Files& files);
  // A worker was bound with these: the first one's are told.
  void OnBound(const Files& files);
  // No worker will be bound any more.
  void Fail(const absl::Status& status);
  // What the first worker had loaded; null before that.
  const std::vector<v1::CodeFile>* first() const;

  // Digests by name.
  const std::map<std::string, std::string>& digests() const { return digests_; }
  // Whether the workers run what these files do not hold any more.
  bool DiffersFrom(const std::vector<v1::CodeFile>& files) const;
  // Calls `told` now, or once that is known.
  void WhenKnown(Told told);

 private:
  void Tell(absl::StatusOr<std::vector<v1::CodeFile>> answer);

  const std::function<void(const v1::CodeFile&)> on_new_;
  std::map<std::string, std::string> digests_;
  std::optional<absl::StatusOr<std::vector<v1::CodeFile>>> answer_;
  std::vector<Told> waiting_;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SUPERVISOR_LOADED_CODE_H_
