#ifndef BULKHEAD_TESTS_IMAGE_JPEG_SEEK_MAP_H_
#define BULKHEAD_TESTS_IMAGE_JPEG_SEEK_MAP_H_

#include <map>
#include <string>
#include <tuple>

#include "server/image/jpeg/seek_store.h"

namespace bulkhead {

// Seek entries in a map. For one thread.
class SeekMap final : public jpeg::SeekStore {
 public:
  bool Find(const jpeg::SeekKey& key, std::string& entries) override {
    const auto found = entries_.find(Order(key));
    if (found == entries_.end()) return false;
    entries = found->second;
    return true;
  }
  bool HasRoom() override { return has_room; }
  void Add(const jpeg::SeekKey& key, absl::string_view entries) override {
    entries_[Order(key)] = std::string(entries);
  }

  size_t size() const { return entries_.size(); }
  // The entries of the only file.
  std::string& only() { return entries_.begin()->second; }
  void Clear() { entries_.clear(); }

  bool has_room = true;

 private:
  using Ordered = std::tuple<uint64_t, uint32_t, uint32_t>;
  static Ordered Order(const jpeg::SeekKey& key) { return {key.record, key.crc32c, key.bytes}; }

  std::map<Ordered, std::string> entries_;
};

}  // namespace bulkhead

#endif  // BULKHEAD_TESTS_IMAGE_JPEG_SEEK_MAP_H_
