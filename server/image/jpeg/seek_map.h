#ifndef BULKHEAD_SERVER_IMAGE_JPEG_SEEK_MAP_H_
#define BULKHEAD_SERVER_IMAGE_JPEG_SEEK_MAP_H_

#include <map>
#include <string>
#include <tuple>

#include "server/image/jpeg/seek_store.h"

namespace bulkhead::jpeg {

// Seek entries in this process, for tools and tests. For one thread.
class SeekMap final : public SeekStore {
 public:
  bool Find(const SeekKey& key, std::string& entries) override {
    const auto found = entries_.find(Order(key));
    if (found == entries_.end()) return false;
    entries = found->second;
    return true;
  }
  bool HasRoom() override { return has_room; }
  void Add(const SeekKey& key, absl::string_view entries) override {
    entries_[Order(key)] = std::string(entries);
  }

  size_t size() const { return entries_.size(); }
  // The entries of the only file.
  std::string& only() { return entries_.begin()->second; }
  void Clear() { entries_.clear(); }

  bool has_room = true;

 private:
  using Ordered = std::tuple<uint64_t, uint32_t, uint32_t>;
  static Ordered Order(const SeekKey& key) { return {key.record, key.crc32c, key.bytes}; }

  std::map<Ordered, std::string> entries_;
};

}  // namespace bulkhead::jpeg

#endif  // BULKHEAD_SERVER_IMAGE_JPEG_SEEK_MAP_H_
