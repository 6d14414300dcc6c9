#include "server/worker/worker.h"

#include <google/protobuf/util/json_util.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "server/arena/exit_codes.h"
#include "server/arena/index_paths.h"
#include "server/arena/worker_error.h"
#include "server/base/byte_size.h"
#include "server/base/error.h"
#include "server/base/read_fault.h"
#include "server/base/version.h"
#include "server/os/files/fd_parcel.h"
#include "server/os/files/read_ahead.h"
#include "server/os/memory/memory_map.h"
#include "server/os/memory/process_memory.h"
#include "server/os/process/crash.h"
#include "server/os/process/process_usage.h"
#include "server/os/process/thread.h"
#include "server/source/index/index_builder.h"
#include "server/source/index/index_file.h"
#include "server/spec/source_chain.h"
#include "server/worker/current_stage.h"
#include "server/worker/lease_runner.h"
#include "server/worker/note_sender.h"
#include "server/worker/process_code.h"
#include "server/worker/segment_store.h"
#include "server/worker/worker_sandbox.h"

namespace bulkhead {
namespace {

constexpr absl::Duration kRetryDelay = absl::Milliseconds(100);
constexpr absl::Duration kProgressInterval = absl::Seconds(1);
// Size limit of one CodeLoaded: far below the supervisor's limit, however long the last file's name
// is.
constexpr size_t kCodePartBytes = size_t{256} << 10;

// One worker's session with its supervisor, which lasts as long as the process. The receiving
// thread runs it; decode threads also call Report.
class Session {
 public:
  Session(PacketSocket socket, std::function<void(LeaseMoment)> on_moment,
          AllocationWatch* allocations, UserCode user_code)
      : socket_(std::move(socket)),
        on_moment_(std::move(on_moment)),
        allocations_(allocations),
        user_code_(std::move(user_code)) {}

  int Run();

 private:
  // Sends a message. Ends the process, whatever its threads are doing, if the supervisor is gone.
  void Report(const internal::v1::FromWorker& message);
  void ReportIfFailed(const absl::Status& status, uint64_t job_id, uint64_t stream_id);
  SegmentStore NewStore(internal::v1::CacheKind kind);
  // Reports the user code loaded since the last call. What this code makes belongs to another trust
  // domain, so nothing is added to the segments of the last one.
  void ReportCode();
  // Reports how Python's memory grows, if there is news.
  void ReportGrowth();
  // Takes a line of the user's code (PythonHost::NoteFn).
  void OnNote(int level, const std::string& function, const char* text);
  // Carries out one order. False if it is invalid.
  bool Handle(const internal::v1::ToWorker& message, Packet& packet);
  // `indexes`: a parcel of the binding's indexes, or closed.
  absl::Status Bind(const internal::v1::Bind& bind, int binding_fd, UniqueFd recorder_fd,
                    const UniqueFd& indexes);
  void BuildOneIndex(const internal::v1::BuildIndex& request, int fd);
  void AddSegment(const internal::v1::AddSegment& segment, int fd);

  void Note(LeaseMoment moment) const {
    if (on_moment_ != nullptr) on_moment_(moment);
  }

  const PacketSocket socket_;
  const std::function<void(LeaseMoment)> on_moment_;
  AllocationWatch* const allocations_;  // may be null
  const UserCode user_code_;
  std::optional<ProcessCode> code_;  // set with the pipeline, if that has user code
  absl::Mutex code_mutex_;           // held while its news are sent
  uint64_t reported_files_ ABSL_GUARDED_BY(code_mutex_) = 0;
  std::optional<FlightRecorder> recorder_;
  NoteSender notes_{[this](const internal::v1::FromWorker& message) {
    return socket_.Send(message.SerializeAsString(), {}, /*wait=*/false);
  }};
  UniqueFd stacks_fd_;  // for the stacks of a Python worker's threads
  // By CacheKind.
  std::array<SegmentStore, internal::v1::CacheKind_ARRAYSIZE> stores_ = {
      NewStore(internal::v1::CACHE_KIND_SEEK), NewStore(internal::v1::CACHE_KIND_STAGE),
      NewStore(internal::v1::CACHE_KIND_COEFFICIENTS)};
  std::unique_ptr<LeaseRunner> runner_;
  bool limited_ = false;  // quota and sandbox are in force, by an index job
};

void Session::Report(const internal::v1::FromWorker& message) {
  if (message.has_lease_done()) Note(LeaseMoment::kProduced);
  if (message.has_lease_done() || message.has_lease_failed()) {
    ReportCode();
    ReportGrowth();
    notes_.TellDropped();
  }
  if (!socket_.Send(message.SerializeAsString()).ok()) _exit(kExitProtocol);
  if (message.has_lease_done()) Note(LeaseMoment::kReported);
}

void Session::ReportIfFailed(const absl::Status& status, uint64_t job_id, uint64_t stream_id) {
  if (status.ok()) return;
  internal::v1::FromWorker message;
  message.mutable_failed()->set_job_id(job_id);
  message.mutable_failed()->set_stream_id(stream_id);
  *message.mutable_failed()->mutable_error() = ToWorkerError(status);
  Report(message);
}

SegmentStore Session::NewStore(internal::v1::CacheKind kind) {
  const auto report_full = [this, kind] {
    internal::v1::FromWorker message;
    message.mutable_segment_full()->set_kind(kind);
    Report(message);
  };
  return SegmentStore(report_full, [this] { ReportCode(); });
}

void Session::ReportCode() {
  if (!code_.has_value()) return;
  // Locked, so that the report precedes other threads' reports of leases done with this code.
  absl::MutexLock lock(&code_mutex_);
  internal::v1::FromWorker message;
  size_t part_bytes = 0;
  std::vector<v1::CodeFile> files = code_->TakeNew();
  if (files.empty()) return;
  for (SegmentStore& store : stores_) store.StopWriting();
  reported_files_ += files.size();
  for (v1::CodeFile& file : files) {
    part_bytes += file.ByteSizeLong();
    *message.mutable_code_loaded()->add_code() = std::move(file);
    if (part_bytes < kCodePartBytes) continue;
    Report(message);
    message.Clear();
    part_bytes = 0;
  }
  if (message.has_code_loaded()) Report(message);
}

void Session::ReportGrowth() {
  if (user_code_.python == nullptr || !recorder_.has_value()) return;
  uint64_t samples = 0;
  for (uint32_t i = 0; i < recorder_->thread_count(); ++i) {
    samples += recorder_->thread(i).samples.load(std::memory_order_relaxed);
  }
  const std::string json = user_code_.python->TakeGrowth(samples);
  internal::v1::FromWorker message;
  if (!json.empty() &&
      google::protobuf::util::JsonStringToMessage(json, message.mutable_python_growth()).ok()) {
    Report(message);
  }
}

void Session::AddSegment(const internal::v1::AddSegment& segment, int fd) {
  absl::MutexLock lock(&code_mutex_);
  const bool writable = segment.writable() && segment.code_files() >= reported_files_;
  if (!internal::v1::CacheKind_IsValid(segment.kind())) return;
  // On failure, samples are made without the cache.
  stores_[segment.kind()].AddSegment(fd, writable).IgnoreError();
}

v1::Note::Level LevelOf(int python_level) {
  if (python_level >= 40) return v1::Note::LEVEL_ERROR;
  if (python_level >= 30) return v1::Note::LEVEL_WARNING;
  return python_level >= 20 ? v1::Note::LEVEL_INFO : v1::Note::LEVEL_DEBUG;
}

void Session::OnNote(int level, const std::string& function, const char* text) {
  // A decode thread knows which stage it runs; other threads only the function that ran last.
  const uint32_t tag = current_stage.stage;
  std::string stage = "python";
  if (tag >= FlightRecorder::kFirstStage && recorder_.has_value()) {
    const std::vector<std::string> names = recorder_->StageNames();
    if (tag < names.size()) stage = names[tag];
  }
  if (!function.empty()) absl::StrAppend(&stage, " (", function, ")");
  notes_.Send(LevelOf(level), stage, text);
}

int Session::Run() {
  internal::v1::FromWorker hello;
  hello.mutable_hello()->set_version(kVersion);
  Report(hello);
  while (true) {
    absl::StatusOr<Packet> packet = socket_.Receive();
    if (!packet.ok()) return kExitProtocol;
    internal::v1::ToWorker message;
    if (!message.ParseFromString(packet->bytes)) return kExitProtocol;
    if (message.has_shutdown()) return 0;
    if (!Handle(message, *packet)) return kExitProtocol;
  }
}

bool Session::Handle(const internal::v1::ToWorker& message, Packet& packet) {
  switch (message.message_case()) {
    case internal::v1::ToWorker::kBind: {
      const UniqueFd indexes = TakeParcel(packet.fds);
      if (packet.fds.size() < 2 || packet.fds.size() > 3) return false;
      if (runner_ != nullptr || limited_) return false;
      if (packet.fds.size() == 3) stacks_fd_ = std::move(packet.fds[2]);
      ReportIfFailed(Bind(message.bind(), packet.fds[0].get(), std::move(packet.fds[1]), indexes),
                     0, 0);
      return true;
    }
    case internal::v1::ToWorker::kAddStream: {
      if (packet.fds.size() != 1 || runner_ == nullptr) return false;
      const internal::v1::StreamBinding& binding = message.add_stream().stream();
      ReportIfFailed(runner_->AddStream(binding, std::move(packet.fds[0])), 0, binding.stream_id());
      return true;
    }
    case internal::v1::ToWorker::kRemoveStream:
      if (runner_ == nullptr) return false;
      runner_->RemoveStream(message.remove_stream().stream_id());
      return true;
    case internal::v1::ToWorker::kWarmUp:
      if (runner_ == nullptr) return false;
      runner_->WarmUp(message.warm_up());
      return true;
    case internal::v1::ToWorker::kSetQuarantine:
      return runner_ != nullptr && runner_->SetQuarantine(message.set_quarantine()).ok();
    case internal::v1::ToWorker::kAddSegment:
      if (packet.fds.size() != 1 || runner_ == nullptr) return false;
      AddSegment(message.add_segment(), packet.fds[0].get());
      return true;
    case internal::v1::ToWorker::kReadAhead:
      if (packet.fds.size() != 1) return false;
      LeaveReadAheadTo(std::move(packet.fds[0]));
      return true;
    case internal::v1::ToWorker::kLease:
      if (runner_ == nullptr) return false;
      Note(LeaseMoment::kReceived);
      runner_->Add(message.lease());
      return true;
    case internal::v1::ToWorker::kSurvey:
      if (runner_ == nullptr) return false;
      runner_->Answer(message.survey());
      return true;
    case internal::v1::ToWorker::kBuildIndex:
      // Never in a process that runs user code.
      if (packet.fds.size() != 1 || runner_ != nullptr) return false;
      BuildOneIndex(message.build_index(), packet.fds[0].get());
      return true;
    default:
      return false;
  }
}

// Private address space that a worker maps but does not fill: per thread its stack and malloc
// arena, and what loading libraries takes.
constexpr uint64_t kVirtualBytesPerThread = uint64_t{16} << 20;
constexpr uint64_t kVirtualBytesOfLibraries = uint64_t{128} << 20;
// The same for imports of user code: a framework's libraries reserve far more than they touch. The
// watchdog and the worker's cgroup limit what they touch.
constexpr uint64_t kVirtualBytesOfImports = uint64_t{8} << 30;
constexpr uint64_t kResidentLater = uint64_t{8} << 20;
// Stack size of threads that user code starts after its import.
constexpr size_t kLateStackBytes = size_t{2} << 20;

// A ceiling until LimitToQuota, because it is not known yet what the pipeline will map.
absl::Status LimitAtStart(const OwnMemory& own, uint64_t quota_bytes, uint32_t threads,
                          bool imports, AllocationWatch* allocations) {
  if (quota_bytes == 0) return absl::OkStatus();
  if (allocations != nullptr) allocations->EndOnRefusal();
  BULKHEAD_ASSIGN_OR_RETURN(const auto usage, own.Read());
  return LimitDataMemory(usage.data_bytes + quota_bytes + kVirtualBytesOfLibraries +
                         (imports ? kVirtualBytesOfImports : 0) + threads * kVirtualBytesPerThread);
}

// Sets the limit after warm-up. RLIMIT_DATA counts private address space, so the room is what the
// quota leaves above resident memory.
absl::Status LimitToQuota(const OwnMemory& own, uint64_t quota_bytes,
                          AllocationWatch* allocations) {
  if (quota_bytes == 0) return absl::OkStatus();
  if (allocations != nullptr) allocations->EndOnRefusal();
  BULKHEAD_ASSIGN_OR_RETURN(const auto usage, own.Read());
  // Mapped pages may become resident later, and page tables grow. This margin makes the limit act
  // before the watchdog does, so that the stage is known.
  const uint64_t held = usage.anonymous_bytes + std::min(quota_bytes / 16, kResidentLater);
  const uint64_t room = quota_bytes > held ? quota_bytes - held : 0;
  return LimitDataMemory(usage.data_bytes + room);
}

// The memory for all decoded images together: a share of the quota, less what the worker already
// holds. The rest is for memory that is not planned.
std::optional<uint64_t> DecodeAllowanceBytes(const OwnMemory& own, uint64_t quota_bytes) {
  constexpr double kSampleShare = 0.8;
  const auto usage = own.Read();
  if (quota_bytes == 0 || !usage.ok()) return std::nullopt;
  const auto share = static_cast<uint64_t>(kSampleShare * static_cast<double>(quota_bytes));
  return share - std::min(share, usage->anonymous_bytes);
}

// Replaces the paths of a binding's indexes by those of the descriptors received.
void UseHandedIndexes(const std::vector<UniqueFd>& handed, internal::v1::PipelineBinding& binding) {
  const std::vector<std::string*> paths = IndexPaths(*binding.mutable_resolved());
  if (handed.size() != paths.size()) return;
  for (size_t i = 0; i < paths.size(); ++i) *paths[i] = HandedIndexPath(handed[i].get());
}

// Imports must leave room for samples.
absl::Status CheckImports(const OwnMemory& own, uint64_t quota_bytes) {
  const auto usage = own.Read();
  if (quota_bytes == 0 || !usage.ok()) return usage.status();
  if (usage->anonymous_bytes < quota_bytes - quota_bytes / 16) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kFailedPrecondition, reason::kStageUnusable,
      absl::StrCat(
          "with its code loaded a worker holds ", FormatBytes(usage->anonymous_bytes),
          " of its quota of ", FormatBytes(quota_bytes),
          ", which leaves no room for samples; start bulkheadd with a larger --worker-quota"));
}

// Whether the pipeline runs user code.
bool HasUserCode(const internal::v1::PipelineBinding& binding) {
  v1::PipelineSpec spec;
  *spec.mutable_source() = binding.source();
  *spec.mutable_stages() = binding.stages();
  *spec.mutable_batch_stages() = binding.batch_stages();
  return !UserCodeOf(spec).empty();
}

absl::Status Session::Bind(const internal::v1::Bind& bind, int binding_fd, UniqueFd recorder_fd,
                           const UniqueFd& indexes) {
  BULKHEAD_ASSIGN_OR_RETURN(const std::string bytes, ReadSealedMessage(binding_fd));
  internal::v1::PipelineBinding binding;
  if (!binding.ParseFromString(bytes)) return absl::InternalError("the binding cannot be parsed");
  BULKHEAD_ASSIGN_OR_RETURN(const std::vector<UniqueFd> handed, UnpackFds(indexes));
  UseHandedIndexes(handed, binding);
  BULKHEAD_ASSIGN_OR_RETURN(const OwnMemory own, OwnMemory::Open());
  // Before any data is read, and while there is one thread.
  const std::vector<SandboxPart> sandbox =
      EnterPipelineSandbox(bind, binding, user_code_.readable, handed.size());
  BULKHEAD_ASSIGN_OR_RETURN(FlightRecorder recorder,
                            FlightRecorder::Attach(std::move(recorder_fd), bind.threads()));
  recorder_.emplace(std::move(recorder));
  if (allocations_ != nullptr) allocations_->Attach(*recorder_, bind.attribution());
  const bool imports = HasUserCode(binding);
  BULKHEAD_RETURN_IF_ERROR(
      LimitAtStart(own, bind.quota_bytes(), bind.threads(), imports, allocations_));
  if (user_code_.python != nullptr) {
    user_code_.python->SendNotesTo([this](int level, const std::string& function,
                                          const char* text) { OnNote(level, function, text); });
  }
  if (stacks_fd_ && user_code_.python != nullptr) {
    const bool tells_stacks = user_code_.python->WriteStacksTo(stacks_fd_.get());
    recorder_->header().tells_stacks = tells_stacks ? 1 : 0;
    if (tells_stacks) NoteCrashes([] { raise(SIGQUIT); });
  }
  BULKHEAD_ASSIGN_OR_RETURN(auto pipeline, Pipeline::Create(binding, user_code_));
  if (imports) {
    BULKHEAD_RETURN_IF_ERROR(CheckImports(own, bind.quota_bytes()));
    code_.emplace(user_code_);
  }
  runner_ = std::make_unique<LeaseRunner>(
      std::move(pipeline), bind.threads(),
      [this](const internal::v1::FromWorker& message) { Report(message); }, kRetryDelay,
      kProgressInterval, &*recorder_, DecodeAllowanceBytes(own, bind.quota_bytes()),
      PipelineStores{&stores_[internal::v1::CACHE_KIND_SEEK],
                     &stores_[internal::v1::CACHE_KIND_COEFFICIENTS],
                     &stores_[internal::v1::CACHE_KIND_STAGE]});
  // The usual 8 MiB each would soon fill the quota.
  SetDefaultStackBytes(kLateStackBytes);
  // After user code is loaded, because it may install handlers: the last one installed is called
  // first.
  NoteWildAccesses(*recorder_);
  BULKHEAD_RETURN_IF_ERROR(LimitToQuota(own, bind.quota_bytes(), allocations_));
  ReportCode();
  internal::v1::FromWorker message;
  message.mutable_bound();
  for (const SandboxPart& part : sandbox) {
    v1::SandboxPart& reported = *message.mutable_bound()->add_sandbox();
    reported.set_name(part.name);
    reported.set_active(part.active);
    reported.set_reason(part.reason);
  }
  Report(message);
  return absl::OkStatus();
}

void Session::BuildOneIndex(const internal::v1::BuildIndex& request, int fd) {
  if (!limited_) {
    const absl::StatusOr<OwnMemory> own = OwnMemory::Open();
    EnterSandbox(IndexSandbox(request));
    const absl::Status limited =
        own.ok() ? LimitToQuota(*own, request.quota_bytes(), allocations_) : own.status();
    if (!limited.ok()) {
      ReportIfFailed(limited, request.job_id(), 0);
      return;
    }
    limited_ = true;
  }
  const auto records = BuildIndex(request, fd, [&](uint64_t records_found, uint64_t bytes_done) {
    internal::v1::FromWorker message;
    message.mutable_index_progress()->set_job_id(request.job_id());
    message.mutable_index_progress()->set_records(records_found);
    message.mutable_index_progress()->set_bytes_done(bytes_done);
    Report(message);
  });
  if (!records.ok()) {
    ReportIfFailed(records.status(), request.job_id(), 0);
    return;
  }
  internal::v1::FromWorker message;
  message.mutable_index_done()->set_job_id(request.job_id());
  message.mutable_index_done()->set_records(*records);
  Report(message);
}

// By default, once a block of up to 32 MiB has been freed, glibc keeps such blocks in the arena of
// each thread: other threads cannot use what a decode has freed.
void ReturnLargeBlocks() {
  mallopt(M_MMAP_THRESHOLD, 4 << 20);
  mallopt(M_TRIM_THRESHOLD, 8 << 20);
}

}  // namespace

int RunWorker(PacketSocket socket, std::function<void(LeaseMoment)> on_moment,
              AllocationWatch* allocations, UserCode user_code) {
  ReturnLargeBlocks();
  CatchReadFaults();
  // Debian's library by default tracks lock order at every lock, which is slow.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  // For programs without an AllocationWatch: an allocation that the quota refuses ends the worker
  // at once, so that no library swallows it.
  std::set_new_handler([] { _exit(kExitOutOfMemory); });
  // Never destroyed: its threads may still work, and the process ends without waiting for them.
  auto& session =
      *new Session(std::move(socket), std::move(on_moment), allocations, std::move(user_code));
  return session.Run();
}

}  // namespace bulkhead
