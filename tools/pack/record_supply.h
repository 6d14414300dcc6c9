#ifndef BULKHEAD_TOOLS_PACK_RECORD_SUPPLY_H_
#define BULKHEAD_TOOLS_PACK_RECORD_SUPPLY_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace bulkhead::tools {

// The records that are packed, in their order. Thread-safe, if each thread has its own Reader.
class RecordSupply {
 public:
  // For one thread.
  class Reader {
   public:
    virtual ~Reader() = default;
    // The serialized tf.Example of record `index` < record_count(). Errors name the record.
    virtual absl::StatusOr<std::string> Read(uint64_t index) = 0;
  };

  virtual ~RecordSupply() = default;
  virtual uint64_t record_count() const = 0;
  // Files that are no records.
  virtual uint64_t left_out() const = 0;
  // A digest of what is packed: of the records' names, and of how they are written.
  virtual std::string identity() const = 0;
  virtual std::unique_ptr<Reader> NewReader() const = 0;
  // A spec for the packed records, which lie beside it as part-*.tfrecord.
  virtual std::string SpecText() const = 0;
};

// The images below a folder: `image`, the file as it is, and `label` where the folder has nothing
// but sub-folders, the number of the sub-folder in sorted order. NOT_FOUND if there are none.
absl::StatusOr<std::unique_ptr<RecordSupply>> SupplyFolder(const std::string& folder);

// The records of anything else that a spec can name, with all features of its source: an image
// list, tars, TFRecords, or a spec. INVALID_ARGUMENT for a mixture, and for a feature that is a
// list of byte strings.
absl::StatusOr<std::unique_ptr<RecordSupply>> SupplySource(const std::string& data);

}  // namespace bulkhead::tools

#endif  // BULKHEAD_TOOLS_PACK_RECORD_SUPPLY_H_
