#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/source/source.h"

namespace bulkhead {

// How the bytes of a record become features: all in which kinds of files differ once they have
// their index. Thread-safe, if each thread uses its own Scratch.
class RecordFormat {
 public:
  // Memory of one thread; reused from record to record.
  class Scratch {
   public:
    virtual ~Scratch() = default;
  };

  virtual ~RecordFormat() = default;
  virtual std::unique_ptr<Scratch> NewScratch() const = 0;

  // Reads the record that lies in `bytes`, the extent that the index names. values[i] belongs to
  // feature i, and is a view of `bytes`, `scratch` or this. The caller adds file and offset to
  // sample errors.
  virtual absl::Status Read(absl::string_view bytes, Scratch& scratch,
                            std::vector<FeatureValue>& values) const = 0;
};

}  // namespace bulkhead
