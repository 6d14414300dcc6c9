#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/base/error.h"
#include "server/base/limits.h"
#include "server/base/record_name.h"
#include "server/base/shell_quoted.h"
#include "server/pipeline/pipeline.h"

namespace bulkhead {
namespace {

// Samples of a lease that the kernel fetches ahead: enough to hide a disk's seeks, few enough for
// the files that a thread may have open.
constexpr uint64_t kExpected = 4;

void NoteProgress(const PipelineContext& context) {
  if (context.on_progress) context.on_progress();
}

// `error`, which ends the stream, with what finds the other records that are damaged, if that is
// what it is.
absl::Status WithScan(const absl::Status& error) {
  if (!IsSampleError(error)) return error;
  const auto info = GetErrorInfo(error);
  const std::set<absl::string_view> damage = {reason::kCorruptRecord,    reason::kTruncatedRecord,
                                              reason::kCorruptImage,     reason::kTruncatedImage,
                                              reason::kUnsupportedImage, reason::kFileNotFound};
  if (!info.has_value() || damage.count(info->reason) == 0) return error;
  return SampleError(info->reason,
                     absl::StrCat(error.message(),
                                  "; `bulkhead scan SPEC --write-spec FILE` finds all such records "
                                  "and writes a spec without them; `errors: {policy: substitute}` "
                                  "in the spec puts others in their place"),
                     info->metadata);
}

// Produces one position, or its substitute; and finds the records of those that a stage wants to
// put beside it.
class LeaseSample {
 public:
  LeaseSample(const Pipeline& pipeline, const StreamView& stream, uint64_t epoch,
              PipelineContext& context)
      : pipeline_(pipeline),
        stream_(stream),
        epoch_(epoch),
        context_(context),
        offered_{stream.binding.samples_per_epoch(),
                 [this](uint64_t position) { return RecordAt(position); },
                 [this](uint64_t position, absl::string_view what,
                        absl::FunctionRef<absl::Status(uint64_t)> use) {
                   return MakePartner(position, what, use);
                 }} {
    context_.reads_again = stream.binding.reads_again();
    context_.keeps_all = stream.binding.keeps_all();
    context_.whole_images = LeavesBlank();
    context_.partners = &offered_;
    ++context_.lease;
    context_.later_records.clear();
  }
  LeaseSample(const LeaseSample&) = delete;
  ~LeaseSample() { context_.partners = nullptr; }

  absl::Status Produce(uint64_t position, absl::Span<std::byte* const> destinations,
                       std::vector<SubstitutedSample>& substituted) {
    const auto produce = [&](uint64_t other) {
      return ProduceRecordOf(other, position, destinations);
    };
    absl::Status status = OneOf(position, produce, substituted);
    if (LeavesBlank() && IsSampleError(status)) {
      LeaveBlank(destinations);
      substituted.push_back({position, position, std::move(status)});
      return absl::OkStatus();
    }
    BULKHEAD_RETURN_IF_ERROR(status);
    std::move(partners_.begin(), partners_.end(), std::back_inserter(substituted));
    return absl::OkStatus();
  }

  // The record at `record_position` with the randomness of `position`.
  absl::Status ProduceRecordOf(uint64_t record_position, uint64_t position,
                               absl::Span<std::byte* const> destinations) {
    position_ = position;
    partners_.clear();
    partner_failed_ = false;
    BULKHEAD_ASSIGN_OR_RETURN(const uint64_t record, AllowedRecord(record_position, position));
    const SampleKey key{stream_.binding.seed(), epoch_, position};
    absl::Status status = pipeline_.Produce(record, key, context_, destinations);
    if (status.ok() || IsSampleError(status)) NoteProgress(context_);
    return status;
  }

  // The records at these positions will be produced, in this order.
  void BeginLease(uint64_t first_position, uint64_t count) {
    if (!pipeline_.shares_frames()) return;
    for (uint64_t i = count; i > 0; --i) {
      const uint64_t position = (first_position + i - 1) % offered_.positions;
      context_.later_records.push_back(RecordAt(position));
    }
  }

  // What `position` reads will be wanted soon.
  void Expect(uint64_t position) const {
    pipeline_.Expect(RecordAt(position), {stream_.binding.seed(), epoch_, position}, context_);
  }

 private:
  uint64_t RecordAt(uint64_t position) const { return stream_.order->RecordAt(epoch_, position); }

  // As PartnerRecords::make.
  absl::Status MakePartner(uint64_t position, absl::string_view what,
                           absl::FunctionRef<absl::Status(uint64_t)> use) {
    const size_t before = partners_.size();
    const auto make_record_of = [&](uint64_t other) -> absl::Status {
      BULKHEAD_ASSIGN_OR_RETURN(const uint64_t record, AllowedRecord(other, position));
      return use(record);
    };
    absl::Status made = OneOf(position, make_record_of, partners_);
    partner_failed_ = !made.ok();
    for (size_t i = before; i < partners_.size(); ++i) {
      SubstitutedSample& partner = partners_[i];
      partner.error = Annotate(partner.error, absl::StrCat("position ", position_, ": ", what));
    }
    return made;
  }

  bool LeavesBlank() const { return stream_.binding.error_action() == v1::ERROR_ACTION_BLANK; }
  void LeaveBlank(absl::Span<std::byte* const> destinations) const {
    const v1::BatchSchema& schema = stream_.binding.schema();
    for (int i = 0; i < schema.tensors_size(); ++i) {
      std::memset(destinations[i], 0, schema.tensors(i).sample_bytes());
    }
  }

  // Calls `make` with `position`, and while the policy is to substitute what that finds bad, with
  // those after it.
  absl::Status OneOf(uint64_t position, absl::FunctionRef<absl::Status(uint64_t)> make,
                     std::vector<SubstitutedSample>& substituted) const {
    absl::Status error = make(position);
    if (stream_.binding.error_action() == v1::ERROR_ACTION_FAIL) return WithScan(error);
    const bool substitute = stream_.binding.error_action() == v1::ERROR_ACTION_SUBSTITUTE;
    if (error.ok() || !substitute || !IsSampleError(error)) return error;
    // Another record would need the same partner.
    if (partner_failed_) return error;
    const uint64_t reach = std::min(kSubstituteReach, offered_.positions - 1);
    for (uint64_t k = 1; k <= reach; ++k) {
      const uint64_t other = (position + k) % offered_.positions;
      const absl::Status status = make(other);
      if (status.ok()) {
        substituted.push_back({position, other, std::move(error)});
        return status;
      }
      if (!IsSampleError(status) || partner_failed_) return status;
    }
    return Annotate(error, absl::StrCat("the ", reach,
                                        " records that follow in the order are bad as well, so "
                                        "that nothing can take the place of this one"));
  }

  // The record at `record_position`, if it may be read; `position` wants it. QUARANTINED.
  absl::StatusOr<uint64_t> AllowedRecord(uint64_t record_position, uint64_t position) const {
    const uint64_t record = RecordAt(record_position);
    if (stream_.quarantined.empty()) return record;
    const std::string name = pipeline_.Identity(record);
    if (!stream_.quarantined.Contains(name)) return record;
    std::map<std::string, std::string> metadata = RecordMetadata(name);
    metadata["position"] = absl::StrCat(position);
    return SampleError(
        reason::kQuarantined,
        absl::StrCat("position ", position, ": ", name,
                     ": the record is in quarantine: workers that took it up ended, "
                     "or it was put there by hand; it was not read. `errors: {policy: "
                     "substitute}` lets another take its place, `exclude` leaves it "
                     "out; or take it out of quarantine with `bulkhead quarantine clear ",
                     ShellQuoted(name), "`"),
        std::move(metadata));
  }

  const Pipeline& pipeline_;
  const StreamView& stream_;
  uint64_t epoch_;
  PipelineContext& context_;
  PartnerRecords offered_;  // to its stages
  // Of the attempt at hand: whose it is, partners that others took the place of, and whether there
  // was one that none could.
  uint64_t position_ = 0;
  std::vector<SubstitutedSample> partners_;
  bool partner_failed_ = false;
};

}  // namespace

absl::Status ProduceLease(const Pipeline& pipeline, const StreamView& stream,
                          const internal::v1::Lease& lease, PipelineContext& context,
                          std::byte* slot, std::vector<SubstitutedSample>& substituted,
                          uint64_t& failed_position) {
  const v1::BatchSchema& schema = stream.binding.schema();
  const uint64_t positions = stream.binding.samples_per_epoch();
  LeaseSample sample(pipeline, stream, lease.epoch(), context);
  context.judges_bytes = true;
  context.fetched_again.clear();
  for (const internal::v1::ObjectParts& object : lease.fetched_again()) {
    for (int i = 0; i + 1 < object.bounds_size(); i += 2) {
      context.fetched_again.push_back({object.key(), object.bounds(i), object.bounds(i + 1)});
    }
  }
  sample.BeginLease(lease.first_position() + lease.first_sample(), lease.count());
  std::vector<std::byte*>& destinations = context.destinations;
  destinations.resize(schema.tensors_size());
  const uint64_t begin = lease.first_sample();
  const uint64_t end = begin + lease.count();
  // Of a part of a batch also the first sample behind it, with which the next part begins.
  const bool goes_on = end < schema.batch_size() && lease.first_position() + end < positions;
  const uint64_t last = goes_on ? end + 1 : end;
  for (uint64_t i = begin, expected = begin + 1; i < end; ++i) {
    for (; expected < std::min(i + 1 + kExpected, last); ++expected) {
      sample.Expect((lease.first_position() + expected) % positions);
    }
    for (int t = 0; t < schema.tensors_size(); ++t) {
      const v1::TensorSchema& tensor = schema.tensors(t);
      destinations[t] = slot + tensor.batch_offset() + i * tensor.sample_bytes();
    }
    const uint64_t position = (lease.first_position() + i) % positions;
    if (!context.later_records.empty()) context.later_records.pop_back();
    const absl::Status status = sample.Produce(position, destinations, substituted);
    if (!status.ok()) {
      failed_position = position;
      return status;
    }
  }
  return absl::OkStatus();
}

std::vector<internal::v1::ObjectParts> PartsOf(const Pipeline& pipeline, const StreamView& stream,
                                               const internal::v1::Survey& survey,
                                               PipelineContext& context) {
  std::vector<ObjectPart> wanted;
  context.wanted = &wanted;
  LeaseSample sample(pipeline, stream, survey.epoch(), context);
  const uint64_t positions = stream.binding.samples_per_epoch();
  for (uint64_t i = 0; i < survey.count(); ++i) {
    sample.Expect((survey.first_position() + i) % positions);
  }
  context.wanted = nullptr;
  return MergeParts(std::move(wanted));
}

absl::Status ProduceSample(const Pipeline& pipeline, const StreamView& stream, uint64_t epoch,
                           uint64_t position, PipelineContext& context,
                           absl::Span<std::byte* const> destinations) {
  return LeaseSample(pipeline, stream, epoch, context)
      .ProduceRecordOf(position, position, destinations);
}

absl::Status FinishBatch(const Pipeline& pipeline, const StreamView& stream,
                         const internal::v1::Lease& lease, PipelineContext& context,
                         std::byte* slot) {
  std::vector<std::byte*> tensors;
  for (const v1::TensorSchema& tensor : stream.binding.schema().tensors()) {
    tensors.push_back(slot + tensor.batch_offset());
  }
  const SampleKey first{stream.binding.seed(), lease.epoch(), lease.first_position()};
  const absl::Status status = pipeline.FinishBatch(lease.count(), first, context, tensors);
  NoteProgress(context);
  if (status.ok()) return status;
  const uint64_t last = lease.first_position() + lease.count() - 1;
  return Annotate(status,
                  absl::StrCat("the batch of positions ", lease.first_position(), " to ", last,
                               " of epoch ", lease.epoch()),
                  {{"epoch", absl::StrCat(lease.epoch())},
                   {"position", absl::StrCat(lease.first_position())},
                   {"last_position", absl::StrCat(last)}});
}

void RehearseSample(const Pipeline& pipeline, const StreamView& stream, uint64_t epoch,
                    uint64_t position, PipelineContext& context,
                    absl::Span<std::byte* const> destinations) {
  if (position >= stream.binding.samples_per_epoch()) return;
  std::vector<SubstitutedSample> substituted;
  // Whatever is wrong with the sample, its lease will say so.
  (void)LeaseSample(pipeline, stream, epoch, context).Produce(position, destinations, substituted);
}

}  // namespace bulkhead
