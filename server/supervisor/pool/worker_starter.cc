#include "server/supervisor/pool/worker_starter.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "server/base/error.h"
#include "server/os/memory/memory_map.h"
#include "server/os/process/worker_environment.h"
#include "server/os/sockets/pipe.h"

namespace bulkhead {
namespace {

// Ids of worker processes, unique over all pools, so that a dead worker's message cannot be taken
// for another's.
LeaseTable::WorkerId NextWorkerId() {
  static LeaseTable::WorkerId next = 1;
  return next++;
}

// Where a worker opens the memory that the pipeline's client brought (worker_host.py).
std::string DatasetVariable(const PipelineConfig& config) {
  const auto path = [](std::string* out, const auto& memory) {
    if (memory == nullptr) {
      out->append("-");
    } else {
      absl::StrAppend(out, "/proc/", getpid(), "/fd/", memory->fd->get());
    }
  };
  return absl::StrCat("BULKHEAD_DATASET=", absl::StrJoin(config.datasets, ":", path));
}

}  // namespace

absl::StatusOr<std::unique_ptr<PoolWorker>> WorkerStarter::Start(Slot& slot) const {
  BULKHEAD_ASSIGN_OR_RETURN(FlightRecorder recorder, FlightRecorder::Create(config_.threads));
  const uint32_t most_threads = config_.threads + 1 + context_.sandbox.extra_threads();
  auto worker =
      std::make_unique<PoolWorker>(FlightReader(std::move(recorder), config_.stages, most_threads),
                                   config_.threads, config_.quota_bytes);
  PoolWorker& raw = *worker;
  raw.id = NextWorkerId();
  raw.slot = slot.index;
  raw.generation = ++slot.generation;
  raw.started = absl::Now();
  raw.spawned_ns = raw.last_progress_ns = MonotonicNanos();
  raw.memory.growth().Expect(slot.grew_by);
  WorkerProcess::Callbacks callbacks;
  callbacks.on_message = [this, &raw](const internal::v1::FromWorker& message) {
    callbacks_.on_message(raw, message);
  };
  callbacks.on_exit = [this, &raw](const WorkerEnd& end) { callbacks_.on_exit(raw, end); };
  if (!config_.user_code.empty() && context_.scratch != nullptr) {
    raw.scratch = context_.scratch->Lend();
  }
  // The worker's resources are kept until it is reaped.
  callbacks.on_orphan_exit = [exits = context_.exits, memory = context_.memory,
                              scratch = raw.scratch, claims = raw.claims,
                              datasets = config_.datasets](const ProcessExit& exit) {
    exits->AddOrphan(exit.cpu_seconds);
  };
  WorkerProgram program = config_.python ? context_.programs.python : context_.programs.native;
  // Only then: on a virtual machine the host may first have to find each huge page.
  if (memory_.IsFast(MonotonicNanos())) program.environment.push_back(HugePagesInHeap());
  if (raw.scratch != nullptr) AddScratch(raw.scratch->path(), program.environment);
  if (config_.python) {
    // What a dataset sees as its worker's number.
    program.environment.push_back(absl::StrCat("BULKHEAD_WORKER_SLOT=", raw.slot));
    if (!config_.datasets.empty()) program.environment.push_back(DatasetVariable(config_));
  }
  BULKHEAD_ASSIGN_OR_RETURN(raw.process,
                            WorkerProcess::Start(*context_.loop, program, std::move(callbacks)));
  if (raw.scratch != nullptr) raw.scratch->SetOwner(raw.process->pid());
  if (context_.tracer != nullptr) Trace(raw);
  // Before it sees any data.
  BULKHEAD_ASSIGN_OR_RETURN(
      raw.cell, context_.compartment->Admit(raw.process->pid(), config_.quota_bytes,
                                            config_.threads, context_.sandbox.extra_threads()));
  Bind(raw);
  return worker;
}

void WorkerStarter::Trace(PoolWorker& worker) const {
  v1::TracedWorker traced;
  traced.set_id(worker.id);
  traced.set_pid(worker.process->pid());
  traced.set_pipeline(config_.name);
  traced.set_slot(worker.slot);
  traced.set_generation(worker.generation);
  worker.trace = std::make_unique<WorkerTrace>(context_.tracer, worker.flight, std::move(traced));
}

void WorkerStarter::Bind(PoolWorker& worker) const {
  const auto memory = CreateSealedMessage(config_.binding);
  if (!memory.ok()) {
    worker.process->Kill(v1::EXIT_CAUSE_TOLD, absl::StrCat("it could not be bound: ",
                                                           std::string(memory.status().message())));
    return;
  }
  internal::v1::ToWorker message;
  std::vector<int> fds = {memory->get(), worker.flight.recorder().fd()};
  absl::StatusOr<Pipe> stacks = absl::UnimplementedError("it has no Python stages");
  if (config_.python) stacks = Pipe::Make();
  if (stacks.ok()) {
    fds.push_back(stacks->writing.get());
    worker.stacks_fd = std::move(stacks->reading);
  }
  internal::v1::Bind& bind = *message.mutable_bind();
  bind.set_threads(config_.threads);
  bind.set_quota_bytes(config_.quota_bytes);
  bind.set_attribution(config_.attribution);
  internal::v1::Sandbox& sandbox = *bind.mutable_sandbox();
  sandbox = context_.sandbox;
  // Without an index it need not wait for the cache folder's disk.
  if (config_.mapped_bytes == 0) sandbox.clear_readable();
  if (worker.scratch != nullptr) sandbox.set_scratch(worker.scratch->path());
  UniqueFd indexes;
  if (!config_.index_fds.empty()) {
    absl::StatusOr<UniqueFd> parcel = PackFds(config_.index_fds);
    if (parcel.ok()) {
      indexes = *std::move(parcel);
      fds.push_back(indexes.get());
    } else {
      spdlog::warn("a worker of pipeline {} must open its indexes by their paths: {}", config_.name,
                   std::string(parcel.status().message()));
    }
  }
  worker.process->Send(message, fds);
  if (context_.read_ahead == nullptr) return;
  internal::v1::ToWorker ahead;
  ahead.mutable_read_ahead();
  const auto socket = context_.read_ahead->NewClient();
  if (socket.ok()) worker.process->Send(ahead, {socket->get()});
}

}  // namespace bulkhead
