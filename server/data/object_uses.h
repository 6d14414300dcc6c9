#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/os/files/fd.h"

namespace bulkhead {

// Which objects and tables are in use, by key. Thread-safe.
class ObjectUses : public std::enable_shared_from_this<ObjectUses> {
 public:
  // Told of keys that are not in use any more, under the lock; null: nobody is.
  using OnUnused = std::function<void(const std::vector<std::string>& keys)>;
  void SetOnUnused(OnUnused on_unused) ABSL_LOCKS_EXCLUDED(mutex_);

  // Keeps a table that was listed, by the lock that `file` has: no other service removes it.
  void Hold(const std::string& key, UniqueFd file) ABSL_LOCKS_EXCLUDED(mutex_);

  // These are in use while the result lives.
  std::shared_ptr<void> Add(std::vector<std::string> keys) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Remove(const std::vector<std::string>& keys) ABSL_LOCKS_EXCLUDED(mutex_);
  void Drop(const std::vector<std::string>& keys) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Mutex mutex_;
  std::map<std::string, size_t> counts_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, UniqueFd> tables_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> listed_ ABSL_GUARDED_BY(mutex_);  // for a stream that is not open yet
  OnUnused on_unused_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace bulkhead
