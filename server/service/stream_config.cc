#include "server/service/stream_config.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/checksum.h"
#include "server/base/cursor_version.h"
#include "server/base/error.h"
#include "server/base/record_name.h"
#include "server/os/files/filesystem.h"
#include "server/service/cursor_check.h"
#include "server/service/raw_messages.h"
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

absl::StatusOr<BatchPlan> PlanBatches(const v1::Open& open, const PreparedPipeline& prepared) {
  const uint64_t world_size = std::max(open.world_size(), 1u);
  if (open.rank() >= world_size) {
    return ProtocolViolation(
        absl::StrCat("rank ", open.rank(), " is not below the world size ", world_size));
  }
  if (open.name().empty()) return ProtocolViolation("the stream has no name");
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
  hash.Update(absl::StrCat("/", config.about.rank(), "/", config.about.world_size(), "/", owner));
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
  config.threads = prepared.memory.threads_per_worker();
  config.quota_bytes = prepared.memory.worker_quota_bytes();
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
  config.about.set_name(Printable(open.name()));
  config.about.set_rank(open.rank());
  config.about.set_spec(prepared.spec_name);
  config.about.set_fingerprint(prepared.bytes_fingerprint);
  config.about.set_world_size(std::max(open.world_size(), 1u));
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
  config.code = CodeToWatch(open, prepared);
  if (open.share()) {
    config.unshared = WhyUnshared(open, can_share);
    if (config.unshared.empty()) config.share_key = ShareKey(config, owner);
  }
  config.max_substitutions_per_epoch = MaxSubstitutions(prepared, config.about.world_size());
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
