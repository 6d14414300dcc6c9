#ifndef BULKHEAD_SERVER_PIPELINE_PIPELINE_H_
#define BULKHEAD_SERVER_PIPELINE_PIPELINE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "server/base/quarantine_set.h"
#include "server/image/codecs/decode_allowance.h"
#include "server/sampler/order.h"
#include "server/stages/running/sample_key.h"

namespace bulkhead {

class StageObserver;
struct UserCode;
class ValueStore;

// The records of a stream's epoch, for stages that put several samples into one: what they may
// read, and what takes the place of a bad one. Used by the thread that produces the sample.
struct PartnerRecords {
  // Positions of an epoch; at least 1.
  uint64_t positions = 1;
  // The record at `position`, whatever is wrong with it.
  std::function<uint64_t(uint64_t position)> record_at;
  // Calls `use` with the number of the record at `position`; under ERROR_ACTION_SUBSTITUTE, when
  // that ends in a sample error, with those after it, as for samples, and reports the
  // substitution; `what` says for people whose record it was. A record in quarantine is a sample
  // error (QUARANTINED). Errors: those of the record at `position`.
  std::function<absl::Status(uint64_t position, absl::string_view what,
                             absl::FunctionRef<absl::Status(uint64_t record)> use)>
      make;
};

// What one thread needs to produce samples: codec state, scratch images, a ReadContext. Reused from
// sample to sample. Made by Pipeline::NewContext; used by one thread at a time.
class PipelineContext {
 public:
  virtual ~PipelineContext() = default;

  // Told what the thread is doing (server/pipeline/stage_observer.h); may be null.
  StageObserver* observer = nullptr;
  // Called when a record of a lease was found good or bad, and when the stages of a batch are done
  // with it: the thread gets on. Not when storage refuses a record. May be null.
  std::function<void()> on_progress;
  // Of the stream that the sample belongs to; null: no stage may need other samples. Set by those
  // who produce samples of a stream (below).
  const PartnerRecords* partners = nullptr;
  // What the thread's images take of the worker's allowance, if it has one; for one sample.
  DecodeShare decode_share;
  // Where seek entries of JPEG images are kept, and what cache stages keep; both outlive this,
  // null: nowhere.
  ValueStore* seek_store = nullptr;
  ValueStore* cache_store = nullptr;
  // Memory of ProduceLease.
  std::vector<std::byte*> destinations;
  // Records are likely to be read again, so that what is missing there is worth making.
  bool reads_again = false;
  // Every image is decoded whole, to tell whether it can be, also where a crop needs a part.
  bool whole_images = false;
};

// A source and its stages, ready to run: record → output tensors. Process-free; thread-safe, each
// thread brings a context of its own.
//
//   BULKHEAD_ASSIGN_OR_RETURN(auto pipeline, Pipeline::Create(binding, user_code));
//   auto context = pipeline->NewContext();
//   BULKHEAD_RETURN_IF_ERROR(pipeline->Produce(record, {seed, epoch, position}, *context,
//   destinations));
class Pipeline {
 public:
  virtual ~Pipeline() = default;

  // Opens the source, plans the stages. Errors: those of OpenSource and InferSignature;
  // PLUGIN_MISSING; STAGE_UNUSABLE when a stage of the user's cannot be had from `user_code`.
  static absl::StatusOr<std::unique_ptr<Pipeline>> Create(
      const internal::v1::PipelineBinding& binding, const UserCode& user_code);

  virtual uint64_t record_count() const = 0;
  virtual std::unique_ptr<PipelineContext> NewContext() const = 0;
  // "stages[0] decode_image": what stages are called, by their numbers for StageObserver, from
  // kFirstStage. Sources of a mixture share the common stages.
  virtual std::vector<std::string> StageNames() const { return {}; }

  // What `record` is called, in quarantine sets and by the flight recorder: its canonical name
  // (server/base/record_name.h). From the index alone: nothing of the record is read. Empty when
  // the index is damaged there, which reading the record will tell.
  virtual std::string Identity(uint64_t record) const = 0;

  // Source::Expect for `record`, which will be produced with `key`, and for those that a stage will
  // put beside it. The observer is told, as
  // opening a file may never return.
  virtual void Expect(uint64_t /*record*/, const SampleKey& /*key*/,
                      PipelineContext& /*context*/) const {}

  // Produces one sample: output i (in the schema's order, `<name>_count` outputs included) is
  // written to destinations[i], all of its sample_bytes, padding zeroed. A pure function of (record
  // bytes, spec, key). On an error the destinations hold anything. Errors: sample errors with
  // file@offset and stage; others end the stream. Stages that put several samples into one read
  // other records, too, through context.partners.
  virtual absl::Status Produce(uint64_t record, const SampleKey& key, PipelineContext& context,
                               absl::Span<std::byte* const> destinations) const = 0;

  // Whether something is done to whole batches.
  virtual bool has_batch_stages() const { return false; }

  // Does it, in place, when the first `rows` samples of a batch are written; `first` is the key of
  // the first of them, tensors[i] where the rows of the schema's tensor i begin. A pure function of
  // those samples and `first`. On an error the batch holds anything.
  virtual absl::Status FinishBatch(uint64_t rows, const SampleKey& first, PipelineContext& context,
                                   absl::Span<std::byte* const> tensors) const {
    (void)rows, (void)first, (void)context, (void)tensors;
    return absl::OkStatus();
  }
};

// A sample whose record was bad, and the one that took its place; or, with another position than
// that of the sample which was asked for, one of those that a stage puts into it.
struct SubstitutedSample {
  uint64_t position = 0;
  uint64_t substitute_position = 0;
  absl::Status error;  // what was wrong with the record at `position`
};

// One stream's way of reading a pipeline; immutable.
struct StreamView {
  internal::v1::StreamBinding binding;
  std::shared_ptr<const SampleOrder> order;
  QuarantineSet quarantined;
};

// Produces the samples of a lease in place: sample i of the batch goes to slot + batch_offset + i ×
// sample_bytes of each tensor of the stream's schema. Under ERROR_ACTION_SUBSTITUTE a sample error
// at position p takes the record of the first good position among p + 1 … p + 16 (modulo N) with
// p's randomness, and is reported in `substituted`; when none is good, or under `fail`, the error
// is returned and `failed_position` set. A record in quarantine is a sample error (QUARANTINED)
// without being read.
absl::Status ProduceLease(const Pipeline& pipeline, const StreamView& stream,
                          const internal::v1::Lease& lease, PipelineContext& context,
                          std::byte* slot, std::vector<SubstitutedSample>& substituted,
                          uint64_t& failed_position);

// Produces the sample at `position` alone, into one destination for each tensor, without a
// substitute for its own record. Errors: those of Pipeline::Produce; QUARANTINED.
absl::Status ProduceSample(const Pipeline& pipeline, const StreamView& stream, uint64_t epoch,
                           uint64_t position, PipelineContext& context,
                           absl::Span<std::byte* const> destinations);

// Runs the batch stages on a batch all of whose samples were produced. `lease` is the whole batch.
// Errors name the batch's epoch and positions; they are the batch's, not a sample's, and no policy
// passes over them.
absl::Status FinishBatch(const Pipeline& pipeline, const StreamView& stream,
                         const internal::v1::Lease& lease, PipelineContext& context,
                         std::byte* slot);

// Produces one sample as a lease would, but into `destinations`, one for each tensor of the schema,
// and discarded, so that the next samples find buffers, files and code ready.
void RehearseSample(const Pipeline& pipeline, const StreamView& stream, uint64_t epoch,
                    uint64_t position, PipelineContext& context,
                    absl::Span<std::byte* const> destinations);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_PIPELINE_PIPELINE_H_
