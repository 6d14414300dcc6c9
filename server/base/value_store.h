#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"

namespace bulkhead {

// The key of a value. Values of all data sets and pipelines may lie in one store, so whoever can
// choose what goes into a key must not be able to meet the key of another's value: KeyOf makes
// keys.
struct StoreKey {
  uint64_t words[2] = {};

  friend bool operator==(const StoreKey&, const StoreKey&) = default;
};

// The first 16 bytes of the SHA-256 of `bytes`.
StoreKey KeyOf(absl::string_view bytes);

// A part of a value.
struct ValuePart {
  uint64_t begin = 0;
  uint64_t bytes = 0;
};
using ChoosePart = absl::FunctionRef<std::optional<ValuePart>(absl::string_view head)>;

// Keeps values that are slow to make, across samples and epochs. Callers must cope with missing
// values. Thread-safe.
class ValueStore {
 public:
  virtual ~ValueStore() = default;
  // Whether there seems to be a value of `key` that is not empty; it may be damaged.
  virtual bool Has(const StoreKey& key) = 0;
  // The value of `key` will be wanted soon: lets it be read in advance, without waiting for it.
  virtual void Expect(const StoreKey& /*key*/) {}
  // To read values takes longer than to make them: lets those around that of `key` be brought into
  // memory, in the course of time.
  virtual void Warm(const StoreKey& /*key*/) {}
  // Copies the value of `key` to `value`. False if there is none, or it is damaged.
  virtual bool Find(const StoreKey& key, std::string& value) = 0;
  // What of the value of `key` the caller chooses when it has seen the first `head_bytes` of it,
  // copied into `buffer`, which only grows. Nothing is compared with the value's checksum, so these
  // and the part must have their own, which cover the key. Nothing if there is no such part.
  virtual std::optional<absl::string_view> FindPart(const StoreKey& key, size_t head_bytes,
                                                    ChoosePart choose, std::string& buffer) = 0;
  // Whether Add would keep a value.
  virtual bool HasRoom() = 0;
  // The same, after it has waited a while for room that may soon be there. By default it does not.
  virtual bool AwaitRoom() { return HasRoom(); }
  // Keeps `value`; false if it cannot.
  virtual bool Add(const StoreKey& key, absl::string_view value) = 0;
};

}  // namespace bulkhead
