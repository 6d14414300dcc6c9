#include "server/service/stream_config.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/arena/code_files.h"
#include "server/base/checksum.h"
#include "server/base/cursor_version.h"
#include "server/base/error.h"
#include "server/base/limits.h"
#include "server/base/record_name.h"
#include "server/os/files/filesystem.h"
#include "server/spec/bytes_changes.h"
#include "server/spec/selection.h"
#include "server/spec/source_chain.h"
#include "server/spec/stage_signature.h"

namespace bulkhead {
namespace {

// The most other samples that one sample of the spec may need for its stages.
uint32_t MostPartners(const v1::PipelineSpec& spec) {
  int most = 0;
  for (const SourceChain& chain : SourceChains(spec)) {
    for (const SourceChain::Step& step : chain.steps) {
      most = std::max(most, TraitsOf(*step.stage).partners);
    }
  }
  return static_cast<uint32_t>(most);
}

bool IsUnordered(const v1::PipelineSpec& spec) {
  return spec.has_deterministic() && !spec.deterministic();
}

constexpr char kOtherData[] = "the cursor belongs to other data, or to another order of them";

// Enough of a fingerprint to see that two differ.
absl::string_view Short(absl::string_view fingerprint) { return fingerprint.substr(0, 8); }

absl::Status Mismatch(absl::string_view verdict, absl::string_view what, absl::string_view mine,
                      absl::string_view theirs, absl::string_view advice) {
  return MakeError(absl::StatusCode::kFailedPrecondition, reason::kCursorMismatch,
                   absl::StrCat(verdict, ": its ", what, " is ", theirs, ", this stream's is ",
                                mine, "; ", advice));
}

absl::Status MadeByAnotherRelease(absl::string_view changed) {
  return MakeError(absl::StatusCode::kFailedPrecondition, reason::kCursorMismatch,
                   absl::StrCat("the cursor's batches were made by another release, which made "
                                "other bytes: since then these changed: ",
                                changed, "; allow_changed_bytes goes on all the same"));
}

// Digest of the file with that name; empty if it is not among `files`.
template <typename Files>
std::string DigestIn(const Files& files, const std::string& name) {
  const auto found = std::find_if(files.begin(), files.end(),
                                  [&](const v1::CodeFile& file) { return file.name() == name; });
  return found == files.end() ? "" : found->digest();
}

// Checks that the code that made the cursor's batches is unchanged on disk.
absl::Status CheckCode(const v1::Cursor& cursor, const std::vector<v1::CodeFile>& on_disk) {
  for (const v1::CodeFile& file : cursor.code()) {
    const std::string digest = DigestIn(on_disk, file.name());
    if (digest == file.digest()) continue;
    return MakeError(
        absl::StatusCode::kFailedPrecondition, reason::kCursorMismatch,
        absl::StrCat("the cursor's batches were made by other code: ", Printable(file.name()), " ",
                     digest.empty() ? "is not there any more" : "was changed since",
                     "; allow_changed_bytes goes on all the same"),
        {{"file", file.name()}});
  }
  return absl::OkStatus();
}

absl::Status CheckCursor(const v1::Open& open, const PreparedPipeline& prepared) {
  const v1::Cursor& cursor = open.cursor();
  if (std::string problem = CursorVersionProblem(cursor.version()); !problem.empty()) {
    return MakeError(absl::StatusCode::kFailedPrecondition, reason::kCursorMismatch, problem);
  }
  if (cursor.samples_per_epoch() != prepared.samples_per_epoch) {
    return Mismatch(kOtherData, "number of samples per epoch",
                    absl::StrCat(prepared.samples_per_epoch),
                    absl::StrCat(cursor.samples_per_epoch()),
                    "the files, or what is selected from them, have changed: put back what the "
                    "cursor was made with, or begin anew without it");
  }
  if (cursor.order_fingerprint() != prepared.order_fingerprint) {
    return Mismatch(
        kOtherData, "order fingerprint", Short(prepared.order_fingerprint),
        Short(cursor.order_fingerprint()),
        "source, filter, split, skip, take, order or seed of the spec differ, or the files "
        "have changed: put back what the cursor was made with, or begin anew without it");
  }
  constexpr uint64_t kMostEpochs = uint64_t{1} << 62;
  if (cursor.epoch() > kMostEpochs) {
    return MakeError(
        absl::StatusCode::kFailedPrecondition, reason::kCursorMismatch,
        absl::StrCat("the cursor is damaged: it says that ", cursor.epoch(), " epochs are done"));
  }
  if (cursor.substitutions() / prepared.samples_per_epoch > cursor.epoch() + 1) {
    return MakeError(absl::StatusCode::kFailedPrecondition, reason::kCursorMismatch,
                     absl::StrCat("the cursor is damaged: it says that ", cursor.substitutions(),
                                  " samples were substituted by epoch ", cursor.epoch(), ", of ",
                                  prepared.samples_per_epoch, " each"));
  }
  if (!open.allow_changed_bytes()) {
    BULKHEAD_RETURN_IF_ERROR(CheckCode(cursor, prepared.code_on_disk));
  }
  const std::vector<v1::CodeFile> code(cursor.code().begin(), cursor.code().end());
  const std::string fingerprint = FingerprintWithCode(prepared.bytes_fingerprint, code);
  if (cursor.bytes_fingerprint() != fingerprint && !open.allow_changed_bytes()) {
    const std::string changed = ChangedSince(prepared.spec, [&](const std::string& earlier) {
      return FingerprintWithCode(earlier, code) == cursor.bytes_fingerprint();
    });
    if (!changed.empty()) return MadeByAnotherRelease(changed);
    return Mismatch("the cursor's batches were made by another pipeline", "bytes fingerprint",
                    Short(fingerprint), Short(cursor.bytes_fingerprint()),
                    "stages, outputs or the error policy differ; allow_changed_bytes goes on "
                    "all the same");
  }
  if (cursor.consumed() > prepared.samples_per_epoch) {
    return Mismatch("the cursor is damaged", "consumed count",
                    absl::StrCat("at most ", prepared.samples_per_epoch),
                    absl::StrCat(cursor.consumed()), "take an earlier one");
  }
  return absl::OkStatus();
}

// The code to name in the stream's cursors before its first batch, sorted by name: what the workers
// have loaded, plus unchanged files that an earlier stream loaded later. The workers may not have
// loaded these yet, but the batches already trained on were made with them.
std::vector<v1::CodeFile> CodeOf(const v1::Cursor& cursor, const PreparedPipeline& prepared) {
  std::vector<v1::CodeFile> code = prepared.code;
  for (const v1::CodeFile& file : cursor.code()) {
    const bool as_it_was = DigestIn(prepared.code_on_disk, file.name()) == file.digest();
    if (file.later() && as_it_was && DigestIn(prepared.code, file.name()).empty()) {
      code.push_back(file);
    }
  }
  std::sort(code.begin(), code.end(),
            [](const auto& a, const auto& b) { return a.name() < b.name(); });
  return code;
}

// Checks an unordered stream's batches delivered out of turn against those that are left.
absl::Status CheckCompleted(const v1::Open& open, const PreparedPipeline& prepared,
                            uint64_t world_size, uint64_t batches_left) {
  const v1::Cursor& cursor = open.cursor();
  if (cursor.completed().empty()) return absl::OkStatus();
  if (open.assigned()) {
    return MakeError(
        absl::StatusCode::kFailedPrecondition, reason::kCursorMismatch,
        absl::StrCat("the cursor stands between batches that were delivered out of turn (",
                     cursor.completed_size(),
                     " of them): go on with one service until a cursor has none, the end of an "
                     "epoch at the latest"));
  }
  if (!IsUnordered(prepared.spec)) {
    return MakeError(
        absl::StatusCode::kFailedPrecondition, reason::kCursorMismatch,
        absl::StrCat("the cursor stands between batches that were delivered out of turn (",
                     cursor.completed_size(),
                     " of them): go on with `deterministic: false` until a ",
                     "cursor has none, the end of an epoch at the latest"));
  }
  if (cursor.batch_size() != prepared.spec.batch().size() || cursor.world_size() != world_size) {
    return MakeError(
        absl::StatusCode::kFailedPrecondition, reason::kCursorMismatch,
        absl::StrCat("the cursor stands between batches that were delivered out of turn (",
                     cursor.completed_size(),
                     " of them), so it can only be resumed with its batch ", "size ",
                     cursor.batch_size(), " and world size ", cursor.world_size(),
                     "; this stream has ", prepared.spec.batch().size(), " and ", world_size));
  }
  uint64_t before = 0;
  for (const uint32_t batch : cursor.completed()) {
    if (batch <= before || batch > kMaxBatchesAhead || batch >= batches_left) {
      return MakeError(
          absl::StatusCode::kFailedPrecondition, reason::kCursorMismatch,
          absl::StrCat("the cursor is damaged: it says that batch ", batch,
                       " behind it was delivered, where ascending numbers from 1, at most ",
                       kMaxBatchesAhead, " and below the ", batches_left,
                       " batches that are left, make sense"));
    }
    before = batch;
  }
  return absl::OkStatus();
}

// Equal messages give equal bytes within one build: maps are sorted by key.
std::string SerializeDeterministically(const google::protobuf::Message& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream out(&stream);
  out.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&out);
  out.Trim();
  return bytes;
}

// Sets the fields that decide which record has which position.
void SetOrder(const PreparedPipeline& prepared, internal::v1::StreamBinding& binding) {
  const v1::Source& source = prepared.spec.source();
  if (!source.has_mixture()) {
    *binding.mutable_order() = prepared.spec.order();
    for (const uint64_t records : SelectedFileRecords(source, prepared.resolved)) {
      binding.add_file_records(records);
    }
    return;
  }
  for (int i = 0; i < source.mixture().sources_size(); ++i) {
    const v1::MixedSource& from = source.mixture().sources(i);
    internal::v1::MixedOrder& mixed = *binding.add_mixed();
    mixed.set_weight(from.weight());
    *mixed.mutable_order() = from.order();
    for (const uint64_t records : SelectedFileRecords(from.source(), prepared.resolved.mixed(i))) {
      mixed.add_file_records(records);
    }
  }
}

// Bytes of the source's indexes and selections that workers map.
uint64_t MappedBytes(const internal::v1::ResolvedSource& source) {
  uint64_t bytes = 0;
  for (const internal::v1::ResolvedFile& file : source.files()) {
    for (const std::string& path : {file.index_path(), file.selection_path()}) {
      if (path.empty()) continue;
      if (const auto info = StatFile(path); info.ok()) bytes += info->size_bytes;
    }
  }
  for (const internal::v1::ResolvedSource& mixed : source.mixed()) bytes += MappedBytes(mixed);
  return bytes;
}

uint64_t MaxSubstitutions(const PreparedPipeline& prepared, uint64_t world_size) {
  const v1::ErrorPolicy& errors = prepared.spec.errors();
  if (errors.policy() != v1::ERROR_ACTION_SUBSTITUTE && errors.policy() != v1::ERROR_ACTION_BLANK) {
    return 0;
  }
  const double positions =
      std::ceil(static_cast<double>(prepared.samples_per_epoch) / static_cast<double>(world_size));
  return static_cast<uint64_t>(std::ceil(errors.max_fraction() * positions));
}

}  // namespace

absl::Status CheckStreamName(const std::string& name) {
  constexpr size_t kMostBytes = 256;
  std::string problem;
  if (name.size() > kMostBytes) {
    problem = absl::StrCat("has ", name.size(), " bytes; at most ", kMostBytes, " are taken");
  } else if (std::any_of(name.begin(), name.end(), absl::ascii_iscntrl)) {
    problem = absl::StrCat("has a control character, such as the end of a line: \"",
                           absl::CHexEscape(name), "\"");
  }
  if (problem.empty()) return absl::OkStatus();
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kInvalidArgument,
                   "the stream's name " + problem);
}

absl::Status CheckCodeNames(const v1::Cursor& cursor) {
  const auto is_name = [](const v1::CodeFile& file) { return IsCodeName(file.name()); };
  const bool few = static_cast<size_t>(cursor.code_size()) <= kMostCodeFiles;
  if (few && std::all_of(cursor.code().begin(), cursor.code().end(), is_name)) {
    return absl::OkStatus();
  }
  return MakeError(absl::StatusCode::kFailedPrecondition, reason::kCursorMismatch,
                   absl::StrCat("the cursor is damaged: its code must name at most ",
                                kMostCodeFiles, " files, by printable paths without '..'"));
}

absl::StatusOr<BatchPlan> PlanBatches(const v1::Open& open, const PreparedPipeline& prepared) {
  const uint64_t world_size = std::max(open.world_size(), 1u);
  if (open.rank() >= world_size) {
    return MakeError(
        absl::StatusCode::kInvalidArgument, reason::kProtocolViolation,
        absl::StrCat("rank ", open.rank(), " is not below the world size ", world_size));
  }
  if (open.name().empty()) {
    return MakeError(absl::StatusCode::kInvalidArgument, reason::kProtocolViolation,
                     "the stream has no name");
  }
  if (open.has_cursor()) BULKHEAD_RETURN_IF_ERROR(CheckCursor(open, prepared));
  BatchPlan::Config config;
  config.samples_per_epoch = prepared.samples_per_epoch;
  config.batch_size = prepared.spec.batch().size();
  config.world_size = world_size;
  config.rank = open.rank();
  config.last = prepared.spec.batch().last();
  config.first_epoch = open.cursor().epoch();
  config.consumed = open.cursor().consumed();
  const BatchPlan plan(config);
  BULKHEAD_RETURN_IF_ERROR(
      CheckCompleted(open, prepared, world_size, plan.batches_left_in_first_epoch()));
  BULKHEAD_RETURN_IF_ERROR(plan.Check());
  return plan;
}

absl::StatusOr<QuarantineSet> QuarantineOf(const v1::Cursor& cursor) {
  QuarantineSet set;
  for (const std::string& record : cursor.quarantined()) {
    if (const auto added = set.Add(record); !added.ok()) {
      return Annotate(added.status(), "the cursor's quarantined records");
    }
  }
  return set;
}

absl::StatusOr<QuarantineSet> QuarantineAtOpen(const v1::Open& open,
                                               const PreparedPipeline& prepared,
                                               const QuarantineStore& store) {
  BULKHEAD_ASSIGN_OR_RETURN(QuarantineSet set, QuarantineOf(open.cursor()));
  BULKHEAD_RETURN_IF_ERROR(store.AddTo(set, prepared.bytes_fingerprint));
  return set;
}

v1::Opened MakeOpened(const v1::Open& open, const PreparedPipeline& prepared, const BatchPlan& plan,
                      const QuarantineSet& quarantined, const std::string& boot_id) {
  v1::Opened opened;
  *opened.mutable_schema() = SchemaWithClasses(prepared);
  opened.set_samples_per_epoch(prepared.samples_per_epoch);
  opened.set_batches_per_epoch(plan.batches_per_epoch());
  const bool over = prepared.spec.has_epochs() && open.cursor().epoch() >= prepared.spec.epochs();
  const auto completed = static_cast<uint64_t>(open.cursor().completed_size());
  opened.set_batches_left_in_epoch(over ? 0 : plan.batches_left_in_first_epoch() - completed);
  opened.set_unordered(IsUnordered(prepared.spec) && !open.assigned());
  opened.set_assigned(open.assigned());
  opened.set_max_substitutions(MaxSubstitutions(prepared, std::max(open.world_size(), 1u)));
  v1::Cursor& cursor = *opened.mutable_cursor();
  cursor = open.cursor();
  cursor.set_version(kCursorVersion);
  cursor.set_order_fingerprint(prepared.order_fingerprint);
  cursor.set_bytes_fingerprint(prepared.bytes_fingerprint);
  cursor.set_samples_per_epoch(prepared.samples_per_epoch);
  const std::vector<v1::CodeFile> code = CodeOf(open.cursor(), prepared);
  *cursor.mutable_code() = {code.begin(), code.end()};
  cursor.clear_quarantined();
  for (const std::string& record : quarantined.records()) cursor.add_quarantined(record);
  opened.set_boot_id(boot_id);
  opened.set_transport(v1::TRANSPORT_GRPC);
  *opened.mutable_memory() = prepared.memory;
  if (prepared.spec.has_epochs()) opened.set_epochs(prepared.spec.epochs());
  return opened;
}

namespace {

// What workers see of a stream, without what changes no byte, and whose it is.
std::string ShareKey(const StreamConfig& config, const std::string& owner) {
  internal::v1::StreamBinding binding = config.binding;
  binding.clear_slot_count();
  binding.clear_reads_again();
  binding.clear_keeps_all();
  Sha256 hash;
  hash.Update(SerializeDeterministically(binding));
  hash.Update(absl::StrCat("/", config.rank, "/", config.world_size, "/", owner));
  return hash.FinishHex();
}

// As StreamConfig::unshared, of a client that asks to share.
std::string WhyUnshared(const v1::Open& open, bool can_share) {
  if (!can_share) return "this service lets streams share nothing (--share-window 0)";
  if (open.assigned()) return "several services make this stream's batches, each of them others";
  return "";
}

std::vector<internal::v1::CacheKind> CachesOf(const v1::PipelineSpec& spec) {
  std::vector<internal::v1::CacheKind> caches;
  if (MayDecodeParts(spec)) caches.push_back(internal::v1::CACHE_KIND_SEEK);
  if (DecodesImages(spec)) caches.push_back(internal::v1::CACHE_KIND_COEFFICIENTS);
  if (!FirstCacheStage(spec).empty()) caches.push_back(internal::v1::CACHE_KIND_STAGE);
  return caches;
}

}  // namespace

PipelineConfig MakePipelineConfig(const PreparedPipeline& prepared) {
  internal::v1::PipelineBinding binding;
  *binding.mutable_source() = prepared.spec.source();
  *binding.mutable_features() = prepared.spec.features();
  *binding.mutable_stages() = prepared.spec.stages();
  *binding.mutable_batch_stages() = prepared.spec.batch_stages();
  *binding.mutable_outputs() = prepared.spec.outputs();
  *binding.mutable_resolved() = prepared.resolved;
  PipelineConfig config;
  config.binding = SerializeDeterministically(binding);
  config.index_fds = prepared.index_fds;
  Sha256 hash;
  hash.Update(config.binding);
  config.key = hash.FinishHex();
  config.name = config.key.substr(0, 8);
  config.workers = prepared.memory.workers();
  config.tuning = prepared.tuning;
  config.threads = prepared.memory.threads_per_worker();
  config.quota_bytes = prepared.memory.worker_quota_bytes();
  config.attribution = prepared.attribution;
  config.stages = {StageLabels(prepared.spec), CacheLabels(prepared.spec),
                   DecodeLabels(prepared.spec)};
  config.stage_code = CodeOfStages(prepared.spec);
  config.python = !FirstPythonStage(prepared.spec).empty();
  config.code = prepared.code_on_disk;
  config.user_code = absl::StrJoin(UserCodeOf(prepared.spec), ", ");
  if (!config.user_code.empty()) config.trust_domain = prepared.bytes_fingerprint;
  config.whole_batches = prepared.spec.batch_stages_size() > 0;
  config.mapped_bytes = MappedBytes(prepared.resolved);
  config.caches = CachesOf(prepared.spec);
  return config;
}

uint32_t MoreSlots(const v1::Open& open, const PreparedPipeline& prepared,
                   const PipelineConfig& pipeline) {
  if (open.share() || open.assigned()) return 0;
  const uint64_t batch_size = std::max<uint64_t>(1, prepared.signature.schema.batch_size());
  const uint64_t samples = SamplesOfLease(batch_size, pipeline.whole_batches);
  const uint64_t leases_of_batch = (batch_size + samples - 1) / samples;
  const uint64_t workers = pipeline.tuning.has_value() ? pipeline.tuning->most : pipeline.workers;
  const uint64_t leases = workers * pipeline.LeasesOfWorker();
  const uint64_t batches =
      std::min<uint64_t>((leases + leases_of_batch - 1) / leases_of_batch, Preparer::kMaxSlots);
  const v1::MemoryPlan& plan = prepared.memory;
  const uint64_t fitting = kMostBytesForMoreSlots / std::max<uint64_t>(1, plan.slot_bytes());
  const uint64_t slots = std::min(batches + 1, fitting);  // one for redoing the head
  return static_cast<uint32_t>(slots - std::min<uint64_t>(slots, plan.slot_count()));
}

void AddDatasets(const google::protobuf::RepeatedPtrField<std::string>& ids,
                 std::vector<std::shared_ptr<const DatasetMemory>> datasets,
                 PipelineConfig& pipeline) {
  if (ids.empty()) return;
  const auto with_ids = [&](absl::string_view of) {
    Sha256 hash;
    hash.Update(absl::StrCat(of, " ", absl::StrJoin(ids, " ")));
    return hash.FinishHex();
  };
  pipeline.key = with_ids(pipeline.key);
  pipeline.name = pipeline.key.substr(0, 8);
  pipeline.trust_domain = with_ids(pipeline.trust_domain);
  for (const auto& memory : datasets) {
    if (memory != nullptr) pipeline.mapped_bytes += memory->bytes;
  }
  pipeline.datasets = std::move(datasets);
}

StreamConfig MakeStreamConfig(const v1::Open& open, const PreparedPipeline& prepared,
                              const BatchPlan& plan, const std::string& owner, bool can_share) {
  StreamConfig config;
  config.name = Printable(open.name());
  config.rank = open.rank();
  config.spec = prepared.spec_name;
  config.fingerprint = prepared.bytes_fingerprint;
  config.world_size = std::max(open.world_size(), 1u);
  config.binding.set_seed(prepared.spec.seed());
  config.binding.set_samples_per_epoch(prepared.samples_per_epoch);
  SetOrder(prepared, config.binding);
  config.binding.set_error_action(prepared.spec.errors().policy());
  config.binding.set_whole_batches(prepared.spec.batch_stages_size() > 0);
  config.binding.set_reads_again(!prepared.spec.has_epochs() || prepared.spec.epochs() > 1);
  config.binding.set_keeps_all(open.keeps_all());
  *config.binding.mutable_schema() = prepared.signature.schema;
  config.binding.set_slot_bytes(prepared.memory.slot_bytes());
  config.binding.set_slot_count(prepared.memory.slot_count());
  config.partners = MostPartners(prepared.spec);
  config.first_epoch = open.cursor().epoch();
  config.substitutions_so_far = open.cursor().substitutions();
  config.ordered = !IsUnordered(prepared.spec) || open.assigned();
  config.completed.assign(open.cursor().completed().begin(), open.cursor().completed().end());
  config.code = CodeOf(open.cursor(), prepared);
  for (v1::CodeFile& file : config.code) {
    // An edit after the check of the disk counts as an edit during the stream.
    const std::string digest = DigestIn(open.cursor().code(), file.name());
    if (!digest.empty() && !open.allow_changed_bytes()) file.set_digest(digest);
  }
  if (open.share()) {
    config.unshared = WhyUnshared(open, can_share);
    if (config.unshared.empty()) config.share_key = ShareKey(config, owner);
  }
  config.max_substitutions_per_epoch = MaxSubstitutions(prepared, config.world_size);
  const std::optional<uint64_t> epochs =
      prepared.spec.has_epochs() ? std::optional(prepared.spec.epochs()) : std::nullopt;
  config.batch_at = [plan, epochs](uint64_t sequence) -> std::optional<v1::BatchHeader> {
    const BatchRange range = plan.At(sequence);
    if (epochs.has_value() && range.epoch >= *epochs) return std::nullopt;
    v1::BatchHeader header;
    header.set_sequence(sequence);
    header.set_epoch(range.epoch);
    header.set_sample_count(range.sample_count);
    header.set_valid_count(range.valid_count);
    header.set_first_position(range.first_position);
    header.set_next_epoch(range.next_epoch);
    header.set_next_consumed(range.next_consumed);
    header.set_batches_left_in_epoch(range.batches_left_in_epoch);
    return header;
  };
  return config;
}

}  // namespace bulkhead
