#pragma once

#include <array>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/source/records/byte_buffer.h"
#include "server/source/records/missing_value.h"
#include "server/source/records/record_format.h"
#include "server/source/tfrecord/feature_list.h"
#include "server/spec/source_signature.h"

namespace bulkhead {

// Memory of one thread for an ExampleReader; reused from record to record.
struct ExampleScratch final : RecordFormat::Scratch {
  // Where the Feature message(s) of each key lie in the record; of a list of steps the FeatureList
  // message(s).
  std::vector<absl::InlinedVector<absl::string_view, 1>> found;
  std::vector<uint64_t> steps;      // of each feature that is a list of steps
  std::vector<ByteBuffer> buffers;  // one a feature, for values that cannot be views of the record
  FeatureList list;
  std::array<FeatureList, std::size(kBoxSides)> sides;
};

// A feature as an ExampleReader looks for it.
struct ExampleFeature {
  FeatureSignature signature;
  std::string key;   // the record's name for it
  size_t found = 0;  // in ExampleScratch; of boxes the first of four
  v1::Feature::TypeCase type = v1::Feature::TYPE_NOT_SET;
  // Of the record's list for one row, or the whole where not variable; of a list of steps for
  // one.
  uint64_t row_values = 1;
  std::string axis;          // of a list of steps; empty: it is none
  size_t first_of_axis = 0;  // the first declared feature that has it
  bool is_list = false;      // of byte strings
  bool is_length = false;    // of the byte strings, not they themselves
  uint64_t images = 0;       // of the list that it is an image of; 0: of none
  uint64_t image = 0;        // its number there
  uint64_t max_bytes = 0;    // of a byte string; 0: no bound
  MissingValue missing;
  bool cast = false;
};

// Frames of TFRecord files that hold tf.Examples or tf.SequenceExamples, whose context is an
// Example's features. Both checksums are verified at every read. Takes the declared features out
// without protobuf's classes: image bytes stay where they are. Unknown fields and undeclared
// features are passed over; of a repeated key the last one counts, as in protobuf's maps.
// Immutable, thread-safe.
class ExampleReader final : public RecordFormat {
 public:
  // `signatures`: SourceFeatures' result for `features`. SPEC_INVALID when a default does not fit
  // its shape.
  static absl::StatusOr<std::unique_ptr<ExampleReader>> Create(
      const std::vector<FeatureSignature>& signatures, const FeatureMap& features);

  std::unique_ptr<Scratch> NewScratch() const override {
    return std::make_unique<ExampleScratch>();
  }
  // Sample errors: those of DataOfFrame and ReadRecord.
  absl::Status Read(absl::string_view bytes, Scratch& scratch,
                    std::vector<FeatureValue>& values) const override;
  // Reads the record in a frame; values[i] belongs to signatures[i]; it is a view of `record`, of
  // `scratch` or, for a default, of this reader. Sample errors: MALFORMED_EXAMPLE, MISSING_FEATURE,
  // WRONG_DTYPE, WRONG_SHAPE, OVER_BOUND.
  absl::Status ReadRecord(absl::string_view record, ExampleScratch& scratch,
                          std::vector<FeatureValue>& values) const;

 private:
  // Where a record holds what is declared: by key, numbers in ExampleScratch::found.
  using Places = absl::flat_hash_map<std::string, absl::InlinedVector<int, 1>>;

  absl::Status Find(absl::string_view record, ExampleScratch& scratch) const;
  static absl::Status FindInMap(absl::string_view message, const Places& places,
                                ExampleScratch& scratch);
  // WRONG_SHAPE if two lists of one axis have unequally many steps.
  absl::Status CheckAxes(const ExampleScratch& scratch) const;

  std::vector<ExampleFeature> declared_;
  size_t keys_ = 0;  // that are looked for
  Places features_;
  Places lists_;  // of steps
};

// The record in the frame `bytes`, a view of it. CORRUPT_RECORD if a checksum does not match.
absl::StatusOr<absl::string_view> DataOfFrame(absl::string_view bytes);

}  // namespace bulkhead
