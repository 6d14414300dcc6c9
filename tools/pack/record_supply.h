#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "tools/inspect/inspected_data.h"
#include "tools/local/stored_files.h"

namespace bulkhead::tools {

// Consecutive records that have files of their own: NAME-000.tfrecord, …
struct RecordSet {
  std::string name = "part";
  uint64_t record_count = 0;
};

// A small file that is written beside the records.
struct SideFile {
  std::string name;
  std::string text;
};

// What was chosen of something that decides how records are written.
struct Setting {
  std::string value;  // "" of a flag
  // What may have been chosen before, when whatever was written then is the same now.
  std::string before = value;

  friend bool operator==(const Setting&, const Setting&) = default;
};

// The records that are packed, in their order. Thread-safe, if each thread has its own Reader.
class RecordSupply {
 public:
  // For one thread.
  class Reader {
   public:
    virtual ~Reader() = default;
    // Records [first, end) are read next, in their order: what they are made of may be fetched.
    virtual void WillRead(uint64_t /*first*/, uint64_t /*end*/) {}
    // The serialized tf.Example of record `index` < record_count(). Errors name the record.
    virtual absl::StatusOr<std::string> Read(uint64_t index) = 0;
  };

  virtual ~RecordSupply() = default;
  virtual uint64_t record_count() const = 0;
  // How the records are divided; the counts sum to record_count().
  virtual std::vector<RecordSet> sets() const { return {{"part", record_count()}}; }
  // The name of a record in messages.
  virtual std::string NameOf(uint64_t index) const = 0;
  // The bytes of what a record is made of, such as the size of its image's file; 0: not known.
  virtual uint64_t InputBytes(uint64_t /*index*/) const { return 0; }
  // What is known of the features that records hold and Spec() does not declare, by their keys;
  // records that nobody has looked at yet may hold more.
  virtual std::set<std::string> undeclared() const { return {}; }
  // Files that are no records.
  virtual uint64_t left_out() const { return 0; }
  // What was chosen that decides how records are written, by its name: an option, "--quality", or
  // words, "the features that DATA declares".
  virtual std::map<std::string, Setting> settings() const = 0;
  // What record `index` is made of, in bytes that nobody reads: its name, what was listed for it,
  // the size and the time of change of its files. While these and the settings are the same, so is
  // the record.
  virtual std::string StateOf(uint64_t index) const = 0;
  virtual std::unique_ptr<Reader> NewReader() const = 0;
  // A spec for the packed records, which lie beside it; not necessarily normalized.
  virtual v1::PipelineSpec Spec() const = 0;
  virtual std::vector<SideFile> side_files() const { return {}; }
  // What is to be told when all is packed, each a line.
  virtual std::vector<std::string> Notes() const { return {}; }
};

// The images below a folder: `image`, the file as it is, and `label` where the folder has
// sub-folders and no image beside them: the number of the sub-folder in sorted order. NOT_FOUND if
// there are none. `stored`, if not null: the objects below the URL `folder`, which does not end in
// "/": images are those whose names end as an image_folder's do, and reading blocks for the store.
absl::StatusOr<std::unique_ptr<RecordSupply>> SupplyFolder(
    const std::string& folder, std::unique_ptr<StoredFiles> stored = nullptr);

// The records of anything else that a spec can name: an image list, tars or a spec, with all
// features of its source; or TFRecords, byte for byte. `found`: what the URL `data` names; without
// files: it is a path. INVALID_ARGUMENT for a mixture, and for a feature that is
// a list of byte strings.
absl::StatusOr<std::unique_ptr<RecordSupply>> SupplySource(const std::string& data,
                                                           const InspectedData& found,
                                                           const FindProgressFn& progress);

}  // namespace bulkhead::tools
