#pragma once

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
#include "server/source/objects.h"
#include "server/stages/running/sample_key.h"

namespace bulkhead {

class StageObserver;
struct UserCode;
class ValueStore;

// The records of a stream's epoch, for stages that put several samples into one. Substitutes bad
// records. Used by the thread that produces the sample.
struct PartnerRecords {
  // The number of positions of an epoch; at least 1.
  uint64_t positions = 1;
  // The record at `position`, whether or not it is good.
  std::function<uint64_t(uint64_t position)> record_at;
  // Calls `use` with the number of the record at `position`. Under ERROR_ACTION_SUBSTITUTE, if that
  // fails with a sample error, calls it with the records after it, as for samples, and reports the
  // substitution; `what` names the record's use, human-readable. A record in quarantine is a sample
  // error (QUARANTINED). Errors: those of the record at `position`.
  std::function<absl::Status(uint64_t position, absl::string_view what,
                             absl::FunctionRef<absl::Status(uint64_t record)> use)>
      make;
};

// The caches that a pipeline's samples use. They outlive it; null: not used.
struct PipelineStores {
  ValueStore* seek_entries = nullptr;  // of JPEG images
  ValueStore* coefficients = nullptr;  // of JPEG images
  ValueStore* cache_stages = nullptr;

  bool any() const {
    return seek_entries != nullptr || coefficients != nullptr || cache_stages != nullptr;
  }
};

// What one thread needs to produce samples: codec state, scratch images, a ReadContext. Reused from
// sample to sample. Made by Pipeline::NewContext; used by one thread at a time.
class PipelineContext {
 public:
  virtual ~PipelineContext() = default;

  // Gets notified of what the thread is doing (server/pipeline/stage_observer.h); may be null.
  StageObserver* observer = nullptr;
  // Called when the thread makes progress: when a record of a lease was found good or bad, and when
  // batch stages are done with a batch. Not called when storage refuses a record. May be null.
  std::function<void()> on_progress;
  // Other records of the sample's stream; null: no stage may need any. Set by the functions below
  // that produce samples of a stream.
  const PartnerRecords* partners = nullptr;
  // The share of the worker's decode allowance, if it has one, that the images of one sample take.
  DecodeShare decode_share;
  PipelineStores stores;
  // Memory of ProduceLease.
  std::vector<std::byte*> destinations;
  // Records will probably be read again, so missing cache entries are worth making.
  bool reads_again = false;
  // They are read just for that, so it may take all the time.
  bool keeps_all = false;
  // Every image is decoded whole, even if a crop needs only a part, to find out whether it can be.
  bool whole_images = false;
  // The lease at hand, another number than the one before, and the records of its samples after the
  // current one: frames that these have as well are kept.
  uint64_t lease = 0;
  std::vector<uint64_t> later_records;
  // Not null: Pipeline::Expect adds the parts of objects that the record lies in.
  std::vector<ObjectPart>* wanted = nullptr;
  // Of the lease at hand, as ReadContext::fetched_again; without `judges_bytes` damaged records are
  // sample errors at once.
  std::vector<ObjectPart> fetched_again;
  bool judges_bytes = false;
};

// A source and its stages, ready to run: record → output tensors. Starts no process; thread-safe,
// if each thread uses its own context.
//
//   BULKHEAD_ASSIGN_OR_RETURN(auto pipeline, Pipeline::Create(binding, user_code));
//   auto context = pipeline->NewContext();
//   BULKHEAD_RETURN_IF_ERROR(pipeline->Produce(record, {seed, epoch, position}, *context,
//   destinations));
class Pipeline {
 public:
  virtual ~Pipeline() = default;

  // Opens the source, plans the stages. Errors: those of OpenSource and InferSignature;
  // PLUGIN_MISSING; STAGE_UNUSABLE if a user stage cannot be loaded from `user_code`.
  static absl::StatusOr<std::unique_ptr<Pipeline>> Create(
      const internal::v1::PipelineBinding& binding, const UserCode& user_code);

  virtual uint64_t record_count() const = 0;
  virtual std::unique_ptr<PipelineContext> NewContext() const = 0;
  // The names of the stages ("stages[0] decode_image") by their numbers for StageObserver, from
  // kFirstStage on. Sources of a mixture share the common stages.
  virtual std::vector<std::string> StageNames() const { return {}; }

  // The canonical name of `record` (server/base/record_name.h), as in quarantine sets and the
  // flight recorder. Found by the index alone: the record is not read. Empty if the index is
  // damaged there, which reading the record will report.
  virtual std::string Identity(uint64_t record) const = 0;

  // Source::Expect for `record`, which will be produced with `key`, and for the records that a
  // stage will add to it. The observer is notified, because opening a file may never return.
  virtual void Expect(uint64_t /*record*/, const SampleKey& /*key*/,
                      PipelineContext& /*context*/) const {}

  // Produces one sample: output i (in the schema's order, `<name>_count` outputs included) is
  // written to destinations[i], all of its sample_bytes, padding zeroed. A pure function of (record
  // bytes, spec, key). After an error the destinations are undefined. Errors: sample errors with
  // file@offset and stage; others end the stream. Stages that put several samples into one read
  // other records, too, through context.partners.
  virtual absl::Status Produce(uint64_t record, const SampleKey& key, PipelineContext& context,
                               absl::Span<std::byte* const> destinations) const = 0;

  // Whether samples of a lease may have frames in common (PipelineContext::later_records).
  virtual bool shares_frames() const { return false; }

  // Whether there are batch stages.
  virtual bool has_batch_stages() const { return false; }

  // Runs the batch stages in place, after the first `rows` samples of a batch were written.
  // `first`: the key of the first sample; tensors[i]: where the rows of the schema's tensor i
  // begin. A pure function of those samples and `first`. After an error the batch is undefined.
  virtual absl::Status FinishBatch(uint64_t rows, const SampleKey& first, PipelineContext& context,
                                   absl::Span<std::byte* const> tensors) const {
    (void)rows, (void)first, (void)context, (void)tensors;
    return absl::OkStatus();
  }
};

// A sample whose record was bad, and its substitute. If the position is not that of the requested
// sample, it is one of those that a stage puts into it.
struct SubstitutedSample {
  uint64_t position = 0;
  uint64_t substitute_position = 0;
  absl::Status error;  // what was wrong with the record at `position`
};

// How one stream reads a pipeline; immutable.
struct StreamView {
  internal::v1::StreamBinding binding;
  std::shared_ptr<const SampleOrder> order;
  QuarantineSet quarantined;
};

// Produces the samples of a lease in place: sample i of the batch goes to slot + batch_offset + i ×
// sample_bytes of each tensor of the stream's schema. Under ERROR_ACTION_SUBSTITUTE a sample error
// at position p takes the record of the first good position among p + 1 … p + 16 (modulo N) with
// p's randomness, and is reported in `substituted`. If none is good, or under `fail`, the error is
// returned and `failed_position` is set. A record in quarantine is a sample error (QUARANTINED)
// without being read.
absl::Status ProduceLease(const Pipeline& pipeline, const StreamView& stream,
                          const internal::v1::Lease& lease, PipelineContext& context,
                          std::byte* slot, std::vector<SubstitutedSample>& substituted,
                          uint64_t& failed_position);

// The parts of objects that the samples of `survey` will read, merged, if they take the records
// that the order says.
std::vector<internal::v1::ObjectParts> PartsOf(const Pipeline& pipeline, const StreamView& stream,
                                               const internal::v1::Survey& survey,
                                               PipelineContext& context);

// Produces the sample at `position` alone, into one destination for each tensor, without a
// substitute for its own record. Errors: those of Pipeline::Produce; QUARANTINED.
absl::Status ProduceSample(const Pipeline& pipeline, const StreamView& stream, uint64_t epoch,
                           uint64_t position, PipelineContext& context,
                           absl::Span<std::byte* const> destinations);

// Runs the batch stages on a batch all of whose samples were produced. `lease` is the whole batch.
// Errors name the batch's epoch and positions. They belong to the batch, not to a sample, and no
// policy ignores them.
absl::Status FinishBatch(const Pipeline& pipeline, const StreamView& stream,
                         const internal::v1::Lease& lease, PipelineContext& context,
                         std::byte* slot);

// Produces one sample as for a lease, but into `destinations`, one for each tensor of the schema,
// to be discarded. Afterwards buffers, files and code are ready.
void RehearseSample(const Pipeline& pipeline, const StreamView& stream, uint64_t epoch,
                    uint64_t position, PipelineContext& context,
                    absl::Span<std::byte* const> destinations);

}  // namespace bulkhead
