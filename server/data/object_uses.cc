#include "server/data/object_uses.h"

#include <algorithm>
#include <utility>

namespace bulkhead {
namespace {

constexpr size_t kMostListed = 64;

}  // namespace

void ObjectUses::SetOnUnused(OnUnused on_unused) {
  absl::MutexLock lock(&mutex_);
  on_unused_ = std::move(on_unused);
}

void ObjectUses::Hold(const std::string& key, UniqueFd file) {
  absl::MutexLock lock(&mutex_);
  tables_[key] = std::move(file);
  listed_.push_back(key);
  if (listed_.size() <= kMostListed) return;
  // Its opening has failed, or takes very long.
  const std::string oldest = listed_.front();
  listed_.pop_front();
  if (counts_.count(oldest) == 0) Drop({oldest});
}

std::shared_ptr<void> ObjectUses::Add(std::vector<std::string> keys) {
  {
    absl::MutexLock lock(&mutex_);
    for (const std::string& key : keys) {
      ++counts_[key];
      const auto listed = std::find(listed_.begin(), listed_.end(), key);
      if (listed != listed_.end()) listed_.erase(listed);
    }
  }
  const auto use = std::make_shared<std::vector<std::string>>(std::move(keys));
  return {use.get(), [use, uses = shared_from_this()](void*) { uses->Remove(*use); }};
}

void ObjectUses::Remove(const std::vector<std::string>& keys) {
  absl::MutexLock lock(&mutex_);
  std::vector<std::string> unused;
  for (const std::string& key : keys) {
    if (--counts_[key] > 0) continue;
    counts_.erase(key);
    if (std::find(listed_.begin(), listed_.end(), key) == listed_.end()) unused.push_back(key);
  }
  Drop(unused);
}

void ObjectUses::Drop(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) tables_.erase(key);
  if (on_unused_ && !keys.empty()) on_unused_(keys);
}

}  // namespace bulkhead
