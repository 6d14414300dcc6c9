#ifndef BULKHEAD_SERVER_BASE_VALUE_STORE_H_
#define BULKHEAD_SERVER_BASE_VALUE_STORE_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace bulkhead {

// The key of a value. The words need not be well mixed.
struct StoreKey {
  uint64_t words[2] = {};

  friend bool operator==(const StoreKey&, const StoreKey&) = default;
};

// Keeps values that are slow to make, across samples and epochs. Callers must cope with missing
// values. Thread-safe.
class ValueStore {
 public:
  virtual ~ValueStore() = default;
  // Copies the value of `key` to `value`. False if there is none, or it is damaged.
  virtual bool Find(const StoreKey& key, std::string& value) = 0;
  // Whether Add would keep a value.
  virtual bool HasRoom() = 0;
  // Keeps `value`; false if it cannot.
  virtual bool Add(const StoreKey& key, absl::string_view value) = 0;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_BASE_VALUE_STORE_H_
