#ifndef BULKHEAD_CLIENT_CPP_BULKHEAD_BATCH_H_
#define BULKHEAD_CLIENT_CPP_BULKHEAD_BATCH_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace bulkhead {

namespace client_internal {
struct BatchData;
}  // namespace client_internal

enum class ElementType {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kInt32,
  kInt64,
  kFloat16,   // IEEE 754 binary16
  kBfloat16,  // the upper half of a float32
  kFloat32,
  kFloat64,
  kBool,   // one byte, 0 or 1
  kBytes,  // a zero-padded byte string of fixed width
  kUint32,
  kUint64,
  kComplex64,   // two float32: real, imaginary
  kComplex128,  // two float64
};

// "float32" and the like, as in specs.
const char* ElementTypeName(ElementType type);

// How the samples of a batch lie in a tensor, without gaps and row-major.
enum class Packing {
  kSamples,  // [samples, …]
  kRows,  // [rows of all samples, …]: sample i has rows row_offsets[i] … row_offsets[i + 1] − 1
  kExtents,  // [samples, …], with a height and width that are this batch's own
  kOffsets,  // [samples + 1]: the row_offsets of the kRows tensor before it, `<its name>_offsets`
};

// "samples", "rows" and so on.
const char* PackingName(Packing packing);

// What `normalize: {at: trainer}` in the spec leaves to the trainer: a tensor comes as uint8 with
// the channels as last dimension, and this has to be done to it, in float32. Normalized() does it.
struct Normalization {
  bool divides_first;         // x / first − second; else (x − first) / second
  std::vector<float> first;   // one number, or one per channel
  std::vector<float> second;  // the same
  ElementType dtype;          // kFloat32; or kFloat16 or kBfloat16, to which the result is rounded
  bool channels_first;        // the channels then go before height and width
};

// One output of a pipeline.
struct TensorInfo {
  std::string name;
  ElementType dtype;
  uint64_t element_bytes;      // 1, 2, 4, 8 or 16; the width of the field for kBytes
  std::vector<int64_t> shape;  // of one sample; bounds where it is packed
  uint64_t sample_bytes;
  Packing packing = Packing::kSamples;
  // Of a label: the names of its classes, in the order of their numbers; empty: not known.
  std::vector<std::string> class_names = {};
  std::shared_ptr<const Normalization> normalization = nullptr;  // null: nothing is left to do
};

// One output of one batch. Lives as long as its batch. The data is 64-byte aligned, except that of
// kOffsets, which the client computes.
struct Tensor {
  absl::string_view name;
  ElementType dtype;
  uint64_t element_bytes;
  std::vector<int64_t> shape;
  const void* data;
  uint64_t bytes;
  Packing packing = Packing::kSamples;
  const int64_t* row_offsets = nullptr;  // of kRows: samples + 1 numbers, from 0, none decreasing
  const Normalization* normalization = nullptr;  // null: nothing is left to do
};

// Bytes of what Normalized() writes; those of the tensor itself, if nothing is left to do.
uint64_t NormalizedBytes(const Tensor& tensor);
// Writes the normalized tensor to `out`, and returns its description: the bytes that the service
// would have sent with `at: worker`. Returns the tensor itself, if nothing is left to do. The
// result lives as long as `out` and the batch.
Tensor Normalized(const Tensor& tensor, void* out);

// A batch that Loader::Next handed out. Until it is destroyed its memory stays valid and is not
// written to by others, also after its loader is closed or has lost its service. Destroying it lets
// the service send another one. Over gRPC destroy batches in their order: a credit returns once
// that batch and all before it are gone. A batch in shared memory keeps its arena mapped.
//
// Move-only. Different threads may use and destroy different batches.
class Batch {
 public:
  Batch(Batch&&) noexcept;
  Batch& operator=(Batch&&) noexcept;
  ~Batch();

  // In the order of the pipeline's outputs.
  const std::vector<Tensor>& tensors() const;
  // The tensor called `name`; null if there is none.
  const Tensor* Find(absl::string_view name) const;

  uint64_t sequence() const;      // from 0, in this stream
  uint64_t epoch() const;         // from 0
  uint64_t sample_count() const;  // padded samples included
  uint64_t valid_count() const;   // the first this many are genuine
  // This rank's positions in the epoch's order: first_position() … + valid_count() − 1.
  uint64_t first_position() const;
  bool last_in_epoch() const;
  uint64_t batches_left_in_epoch() const;

  // State after this batch and all that were handed out before it, as JSON for a checkpoint:
  // LoaderOptions::cursor continues there. If batches come out of order it lists those that are
  // ahead, and only a loader with the same batch and world size can continue from it.
  std::string cursor() const;

  // Used by Loader.
  explicit Batch(std::unique_ptr<client_internal::BatchData> data);

 private:
  std::unique_ptr<client_internal::BatchData> data_;
};

}  // namespace bulkhead

#endif  // BULKHEAD_CLIENT_CPP_BULKHEAD_BATCH_H_
