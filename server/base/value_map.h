#ifndef BULKHEAD_SERVER_BASE_VALUE_MAP_H_
#define BULKHEAD_SERVER_BASE_VALUE_MAP_H_

#include <map>
#include <string>
#include <utility>

#include "server/base/value_store.h"

namespace bulkhead {

// Values in this process, for tools and tests. For one thread.
class ValueMap final : public ValueStore {
 public:
  bool Find(const StoreKey& key, std::string& value) override {
    const auto found = values_.find(Order(key));
    if (found == values_.end()) return false;
    value = found->second;
    return true;
  }
  bool HasRoom() override { return has_room; }
  bool Add(const StoreKey& key, absl::string_view value) override {
    if (has_room) values_[Order(key)] = std::string(value);
    return has_room;
  }

  size_t size() const { return values_.size(); }
  // The only value.
  std::string& only() { return values_.begin()->second; }
  void Clear() { values_.clear(); }

  bool has_room = true;

 private:
  using Ordered = std::pair<uint64_t, uint64_t>;
  static Ordered Order(const StoreKey& key) { return {key.words[0], key.words[1]}; }

  std::map<Ordered, std::string> values_;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_BASE_VALUE_MAP_H_
