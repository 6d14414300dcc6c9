#ifndef BULKHEAD_SERVER_BASE_VALUE_STORE_H_
#define BULKHEAD_SERVER_BASE_VALUE_STORE_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace bulkhead {

// What a value is found by. The words need not be well mixed.
struct StoreKey {
  uint64_t words[2] = {};

  friend bool operator==(const StoreKey&, const StoreKey&) = default;
};

// Where something is kept that costs time to make, from sample to sample and from epoch to epoch.
// Callers must work without it: a value may always be missing. Thread-safe.
class ValueStore {
 public:
  virtual ~ValueStore() = default;
  // Copies what is kept under `key` to `value`. False when nothing is, or what is kept is damaged.
  virtual bool Find(const StoreKey& key, std::string& value) = 0;
  // Whether Add would keep anything.
  virtual bool HasRoom() = 0;
  // Keeps `value`; false when that cannot be.
  virtual bool Add(const StoreKey& key, absl::string_view value) = 0;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_BASE_VALUE_STORE_H_
