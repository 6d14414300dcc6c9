#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "server/base/value_store.h"

namespace bulkhead {

// Values in this process, for tools and tests. Used by one thread.
class ValueMap final : public ValueStore {
 public:
  explicit ValueMap(uint64_t most_bytes = std::numeric_limits<uint64_t>::max())
      : most_bytes_(most_bytes) {}

  bool Has(const StoreKey& key) override {
    const auto found = values_.find(Order(key));
    return found != values_.end() && !found->second.empty();
  }
  bool Find(const StoreKey& key, std::string& value) override {
    const auto found = values_.find(Order(key));
    if (found == values_.end()) return false;
    value = found->second;
    return true;
  }
  std::optional<absl::string_view> FindPart(const StoreKey& key, size_t head_bytes,
                                            ChoosePart choose, std::string& buffer) override {
    const auto found = values_.find(Order(key));
    if (found == values_.end()) return std::nullopt;
    const absl::string_view value = found->second;
    const std::optional<ValuePart> chosen = choose(value.substr(0, head_bytes));
    if (!chosen.has_value() || chosen->begin > value.size() ||
        chosen->bytes > value.size() - chosen->begin) {
      return std::nullopt;
    }
    buffer.assign(value.data() + chosen->begin, chosen->bytes);
    return buffer;
  }
  bool HasRoom() override { return has_room; }
  bool Add(const StoreKey& key, absl::string_view value) override {
    if (!has_room || value.size() > most_bytes_ - bytes_) return false;
    std::string& kept = values_[Order(key)];
    bytes_ += value.size() - kept.size();
    added_bytes_ += value.size();
    kept = std::string(value);
    return true;
  }

  size_t size() const { return values_.size(); }
  uint64_t bytes() const { return bytes_; }              // of all values
  uint64_t added_bytes() const { return added_bytes_; }  // of all that were ever added
  // The only value.
  std::string& only() { return values_.begin()->second; }
  void Clear() {
    values_.clear();
    bytes_ = 0;
  }

  bool has_room = true;

 private:
  using Ordered = std::pair<uint64_t, uint64_t>;
  static Ordered Order(const StoreKey& key) { return {key.words[0], key.words[1]}; }

  const uint64_t most_bytes_;
  uint64_t bytes_ = 0;
  uint64_t added_bytes_ = 0;
  std::map<Ordered, std::string> values_;
};

}  // namespace bulkhead
