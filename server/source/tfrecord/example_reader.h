#pragma once

#include <array>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/source/records/byte_buffer.h"
#include "server/source/records/missing_value.h"
#include "server/source/source.h"
#include "server/source/tfrecord/feature_list.h"
#include "server/spec/source_signature.h"

namespace bulkhead {

// Memory of one thread for ExampleReader::Read; reused from record to record.
struct ExampleScratch {
  // Where the Feature message(s) of each key lie in the record; of a list of steps the FeatureList
  // message(s).
  std::vector<absl::InlinedVector<absl::string_view, 1>> found;
  std::vector<uint64_t> steps;      // of each feature that is a list of steps
  std::vector<ByteBuffer> buffers;  // one a feature, for values that cannot be views of the record
  FeatureList list;
  std::array<FeatureList, std::size(kBoxSides)> sides;
};

// Takes the declared features out of serialized tf.Examples and tf.SequenceExamples, whose context
// is an Example's features, without protobuf's classes: image bytes stay where they are. Unknown
// fields and undeclared features are passed over; of a repeated key the last one counts, as in
// protobuf's maps. Immutable, thread-safe.
class ExampleReader {
 public:
  // `signatures`: SourceFeatures' result for `features`. SPEC_INVALID when a default does not fit
  // its shape.
  static absl::StatusOr<ExampleReader> Create(
      const std::vector<FeatureSignature>& signatures,
      const google::protobuf::Map<std::string, v1::Feature>& features);

  // Reads `record`; values[i] belongs to signatures[i]; it is a view of `record`, of `scratch`
  // or, for a default, of this reader.
  // Sample errors, to which the caller adds file and offset: MALFORMED_EXAMPLE, MISSING_FEATURE,
  // WRONG_DTYPE, WRONG_SHAPE, OVER_BOUND.
  absl::Status Read(absl::string_view record, ExampleScratch& scratch,
                    std::vector<FeatureValue>& values) const;

 private:
  struct Declared {
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

  // Where a record holds what is declared: by the field of the record, by key, numbers in
  // ExampleScratch::found.
  using Places = absl::flat_hash_map<std::string, absl::InlinedVector<int, 1>>;

  absl::Status Find(absl::string_view record, ExampleScratch& scratch) const;
  static absl::Status FindInMap(absl::string_view message, const Places& places,
                                ExampleScratch& scratch);
  absl::Status ReadDeclared(size_t i, absl::string_view record, ExampleScratch& scratch,
                            FeatureValue& value) const;
  // WRONG_SHAPE if two lists of one axis have unequally many steps.
  absl::Status CheckAxes(const ExampleScratch& scratch) const;
  absl::Status ReadFeature(const Declared& declared, const FeatureList& list, ByteBuffer& buffer,
                           FeatureValue& value) const;
  absl::Status ReadBytes(const Declared& declared, const FeatureList& list, ByteBuffer& buffer,
                         FeatureValue& value) const;
  // One image of a list of steps.
  absl::Status ReadStepImage(const Declared& declared,
                             const absl::InlinedVector<absl::string_view, 1>& messages,
                             FeatureList& list, FeatureValue& value) const;
  absl::Status ReadStrings(const Declared& declared, const FeatureList& list, ByteBuffer& buffer,
                           FeatureValue& value) const;
  absl::Status ReadBoxes(const Declared& declared, ExampleScratch& scratch, ByteBuffer& buffer,
                         FeatureValue& value) const;
  absl::Status ReadTensorFeature(const Declared& declared, const FeatureList& list,
                                 ByteBuffer& buffer, FeatureValue& value) const;
  absl::Status ReadNumbers(const Declared& declared, const FeatureList& list, ByteBuffer& buffer,
                           FeatureValue& value) const;
  static absl::Status SetMissing(const Declared& declared, absl::string_view record,
                                 FeatureValue& value);

  std::vector<Declared> declared_;
  size_t keys_ = 0;  // that are looked for
  Places features_;
  Places lists_;  // of steps
};

}  // namespace bulkhead
