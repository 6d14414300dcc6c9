#ifndef BULKHEAD_SERVER_IMAGE_JPEG_SEEK_STORE_H_
#define BULKHEAD_SERVER_IMAGE_JPEG_SEEK_STORE_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace bulkhead::jpeg {

// What a file's seek entries are found by: who it is, and what it holds.
struct SeekKey {
  uint64_t record = 0;  // hash of the record's identity
  uint32_t crc32c = 0;  // of the encoded bytes
  uint32_t bytes = 0;   // of which there are

  friend bool operator==(const SeekKey&, const SeekKey&) = default;
};

// Where seek entries are kept from decode to decode. Thread-safe.
class SeekStore {
 public:
  virtual ~SeekStore() = default;
  // Copies what is kept under `key` to `entries`. False when nothing is, or what is kept is
  // damaged.
  virtual bool Find(const SeekKey& key, std::string& entries) = 0;
  // Whether Add would keep anything.
  virtual bool HasRoom() = 0;
  // Keeps `entries`; when that cannot be, nothing is said.
  virtual void Add(const SeekKey& key, absl::string_view entries) = 0;
};

}  // namespace bulkhead::jpeg

#endif  // BULKHEAD_SERVER_IMAGE_JPEG_SEEK_STORE_H_
