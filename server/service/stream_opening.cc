#include "server/service/stream_opening.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/base/error.h"
#include "server/os/monotonic_wait.h"
#include "server/service/cursor_check.h"
#include "server/service/stream_config.h"

namespace bulkhead {
namespace {

constexpr absl::Duration kAdmissionPatience = absl::Seconds(3);
// Then, for the fewest slots: for the client of a stream that made room to give back its own.
constexpr absl::Duration kReturnPatience = absl::Seconds(1);
constexpr absl::Duration kAdmissionPause = absl::Milliseconds(50);
constexpr absl::Duration kCodePause = absl::Milliseconds(50);
// Time to read quarantine entries of other services. If it runs out, the stream uses those that
// this service knows.
constexpr absl::Duration kRefreshPatience = absl::Seconds(1);
// One slot is reserved for redoing the head, and a client that holds a batch needs another slot for
// the next one.
constexpr uint32_t kFewestSlots = 3;

// In shared memory the batches that the client holds stay in their slots, so the arena has a slot
// for each of them; over gRPC batches leave their slots.
uint32_t Slots(const v1::Open& open) {
  if (open.transport() == v1::TRANSPORT_GRPC || open.arena_token().empty()) {
    return Preparer::kDefaultSlots;
  }
  return std::clamp(open.credits().batches(), Preparer::kDefaultSlots, Preparer::kMaxSlots);
}

void MakeBrief(PipelineConfig& pipeline) {
  pipeline.brief = true;
  pipeline.workers = 1;
  pipeline.tuning.reset();
}

absl::Status TransportUnavailable(const absl::Status& why_not) {
  return MakeError(absl::StatusCode::kFailedPrecondition, reason::kTransportUnavailable,
                   absl::StrCat("shared memory was asked for and cannot be had: ",
                                std::string(why_not.message())));
}

Incarnation IncarnationOf(const v1::Open& open) {
  return {open.incarnation(), open.machine_boot(), open.since_boot()};
}

}  // namespace

absl::Status StreamOpening::Run(v1::Open& open, RequestMemory::Place& place, Session session) {
  const absl::Status status = Open(open, place, std::move(session));
  return status.ok() || !context_.sessions->draining() ? status : SessionRegistry::Draining();
}

absl::Status StreamOpening::Open(v1::Open& open, RequestMemory::Place& place, Session session) {
  const Preparer& preparer = *context_.preparer;
  BULKHEAD_RETURN_IF_ERROR(CheckStreamName(open.name()));
  log_.SetStream(open.name(), open.rank());
  BULKHEAD_ASSIGN_OR_RETURN(
      const uint64_t connection,
      context_.directory->Enter(OwnedName(open), open.rank(), IncarnationOf(open)));
  BULKHEAD_RETURN_IF_ERROR(CheckCodeNames(open.cursor()));
  BULKHEAD_ASSIGN_OR_RETURN(PreparedPipeline prepared,
                            preparer.Understand(open.spec(), Slots(open)));
  open.mutable_spec()->clear_input();
  BULKHEAD_RETURN_IF_ERROR(place.Understood(
      prepared.spec.SpaceUsedLong() + prepared.signature.MemoryBytes() + open.SpaceUsedLong()));
  // A stream that continues has already got the warnings.
  if (!open.has_cursor()) Warn(prepared.notes.warnings);
  const auto cancelled = [this] { return outbox_.gone() || context_.sessions->draining(); };
  BULKHEAD_RETURN_IF_ERROR(preparer.FindData(
      open.spec().base_dir(), prepared,
      [this](const v1::Progress& progress) {
        v1::StreamResponse response;
        *response.mutable_progress() = progress;
        outbox_.Put(response);
      },
      cancelled));
  PipelineConfig pipeline = MakePipelineConfig(prepared);
  pipeline.tuning = preparer.limits().tuning;
  pipeline.attribution = preparer.limits().attribution;
  if (open.brief()) MakeBrief(pipeline);
  if (!open.datasets().empty()) {
    BULKHEAD_RETURN_IF_ERROR(caller_.code);
    BULKHEAD_ASSIGN_OR_RETURN(auto datasets, context_.datasets->Find(open.datasets()));
    AddDatasets(open.datasets(), std::move(datasets), pipeline);
  }
  const bool user_code = !pipeline.user_code.empty();
  if (user_code) {
    std::vector<std::string> names = context_.supervisor->CodeOf(pipeline.key);
    for (const v1::CodeFile& file : open.cursor().code()) names.push_back(file.name());
    BULKHEAD_ASSIGN_OR_RETURN(prepared.code_on_disk,
                              preparer.ReadCode(std::move(names), cancelled));
    pipeline.code = prepared.code_on_disk;
  }
  BULKHEAD_ASSIGN_OR_RETURN(const BatchPlan plan, PlanBatches(open, prepared));
  BULKHEAD_ASSIGN_OR_RETURN(QuarantineSet quarantined, QuarantineOf(open.cursor()));
  BULKHEAD_RETURN_IF_ERROR(CheckTransport(open));
  PoolSeat tried;
  if (user_code) {
    BULKHEAD_ASSIGN_OR_RETURN(tried, TryCode(open, pipeline, prepared.memory));
  }
  // Until here this stream may be refused while the name's holder goes on. From here on this stream
  // has the name, and may need the holder's memory.
  std::shared_ptr<Legacy> legacy;
  BULKHEAD_RETURN_IF_ERROR(Claim(open, connection, std::move(session.evict), legacy));
  BULKHEAD_ASSIGN_OR_RETURN(
      const Admission admission,
      Admit(pipeline, prepared.memory, MoreSlots(open, prepared, pipeline), legacy.get()));
  if (user_code) {
    BULKHEAD_ASSIGN_OR_RETURN(prepared.code, AwaitCode(admission.pool));
    prepared.bytes_fingerprint = FingerprintWithCode(prepared.bytes_fingerprint, prepared.code);
  }
  QuarantineStore::RefreshWithin(context_.quarantine, *context_.io, kRefreshPatience);
  BULKHEAD_RETURN_IF_ERROR(context_.quarantine->AddTo(quarantined, prepared.bytes_fingerprint));
  prepared.memory.set_workers(admission.worker_count);
  BULKHEAD_ASSIGN_OR_RETURN(
      const std::shared_ptr<Arena> arena,
      Arena::Create(prepared.memory.slot_bytes(), prepared.memory.slot_count()));
  StreamConfig config =
      MakeStreamConfig(open, prepared, plan, caller_.name, context_.supervisor->shares_batches());
  if (!config.unshared.empty() && !open.has_cursor()) {
    Warn({absl::StrCat("`share` has no effect: ", config.unshared)});
  }
  config.quarantined = quarantined;
  config.on_quarantined = Remember(prepared.bytes_fingerprint);
  config.arena = arena;
  config.memory = std::make_shared<ArenaMemory>(arena, std::move(*admission.arena));
  // This thread writes, too.
  const std::shared_ptr<const void> writer = config.writer = config.memory->MakeWriter();
  config.observer = std::move(session.observer);
  config.fetcher = preparer.FetcherOf(prepared.resolved);
  config.about.set_peer(caller_.peer);
  config.about.set_peer_pid(caller_.process);
  config.meter = outbox_.meter();
  if (open.assigned()) config.assignments = outbox_.ExpectAssignments();

  v1::StreamResponse response;
  v1::Opened& opened = *response.mutable_opened();
  opened = MakeOpened(open, prepared, plan, quarantined, context_.boot_id);
  BULKHEAD_ASSIGN_OR_RETURN(Outbox::Transport transport,
                            ChooseTransport(open, *arena, std::move(session.on_released), opened));
  transport.schema = prepared.signature.schema;
  config.about.set_transport(opened.transport());
  resolved_ = prepared.resolved;
  log_.Opened(pipeline.name, config.about.spec(), opened, open.has_cursor());
  outbox_.SetOpened(response, std::move(transport));
  claims_.SetMemory(config.memory, admission.pool);
  // The arena's pages are charged to the process that touches them first, which should be the
  // supervisor: the first slot before the first lease, the others while that is in work.
  arena->Prefault(0);
  if (config.binding.reads_again()) context_.supervisor->AwaitSegments(admission.pool);
  Supervisor* const supervisor = context_.supervisor;
  const uint64_t id = supervisor->OpenStream(admission.pool, std::move(config));
  claims_.Add([supervisor, id] { supervisor->CloseStream(id); });
  for (uint32_t slot = 1; slot < arena->usual_slots() && !outbox_.gone(); ++slot) {
    arena->Prefault(slot);
  }
  // Workers open and close slots all the time.
  for (uint32_t slot = 0; slot < arena->usual_slots() && !outbox_.gone(); ++slot) {
    arena->UseHugePages(slot);
  }
  return absl::OkStatus();
}

std::string StreamOpening::OwnedName(const v1::Open& open) const {
  return caller_.name.empty() ? open.name() : absl::StrCat(open.name(), " of ", caller_.name);
}

void StreamOpening::Warn(const std::vector<std::string>& warnings) const {
  for (const std::string& warning : warnings) {
    v1::StreamResponse response;
    response.mutable_note()->set_level(v1::Note::LEVEL_WARNING);
    response.mutable_note()->set_text(warning);
    outbox_.Put(response);
  }
}

absl::Status StreamOpening::Claim(const v1::Open& open, uint64_t connection,
                                  StreamDirectory::Evict evict, std::shared_ptr<Legacy>& legacy) {
  StreamDirectory* const directory = context_.directory;
  BULKHEAD_RETURN_IF_ERROR(directory->Claim(OwnedName(open), open.rank(), IncarnationOf(open),
                                            connection, evict, legacy));
  SessionRegistry* const sessions = context_.sessions;
  sessions->Offer(caller_.session, outbox_.unread_since(),
                  [evict = std::move(evict), name = open.name(), rank = open.rank(), sessions] {
                    spdlog::info(
                        "stream {} of rank {} is not read, so it is closed to free its place "
                        "among the calls",
                        name, rank);
                    evict(StreamIdle(sessions->idle(), "another call needed its place"));
                  });
  claims_.Add([directory, name = OwnedName(open), rank = open.rank(), connection] {
    directory->Release(name, rank, connection);
  });
  return absl::OkStatus();
}

absl::StatusOr<Admission> StreamOpening::Admit(const PipelineConfig& pipeline, v1::MemoryPlan& plan,
                                               uint32_t more_slots, Legacy* legacy) const {
  const int64_t begin_ns = MonotonicNanos();
  absl::Status refusal;  // of all slots
  for (uint32_t slots = plan.slot_count(); !outbox_.gone();) {
    absl::StatusOr<Admission> admission = context_.supervisor->Admit(
        pipeline, slots, plan.slot_bytes(), legacy, slots == plan.slot_count() ? more_slots : 0);
    if (!absl::IsResourceExhausted(admission.status())) {
      if (admission.ok() && slots < plan.slot_count()) {
        spdlog::info("pipeline {}: {} of a stream's {} slots fit into the memory budget",
                     pipeline.name, slots, plan.slot_count());
      }
      if (admission.ok()) {
        plan.set_slot_count(admission->slot_count);
        plan.set_arena_bytes(plan.slot_count() * plan.slot_bytes());
      }
      return admission;
    }
    if (context_.datasets != nullptr && context_.datasets->DropOne(MonotonicNanos())) continue;
    if (slots == plan.slot_count()) refusal = admission.status();
    const absl::Duration tried = absl::Nanoseconds(MonotonicNanos() - begin_ns);
    if (tried > kAdmissionPatience && slots > kFewestSlots) {
      --slots;
    } else if (tried > kAdmissionPatience + kReturnPatience) {
      return refusal;
    } else {
      absl::SleepFor(kAdmissionPause);
    }
  }
  return absl::CancelledError("the client is gone");
}

absl::StatusOr<std::vector<v1::CodeFile>> StreamOpening::AwaitCode(const PoolSeat& pool) const {
  struct Answer {
    absl::Mutex mutex;
    std::optional<absl::StatusOr<std::vector<v1::CodeFile>>> code ABSL_GUARDED_BY(mutex);
  };
  const auto answer = std::make_shared<Answer>();
  context_.supervisor->WhenLoaded(pool, [answer](const auto& code) {
    absl::MutexLock lock(&answer->mutex);
    answer->code = code;
  });
  absl::MutexLock lock(&answer->mutex);
  const auto told = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return answer->code.has_value(); };
  // A worker that does not become ready is killed after a while, and the pool fails.
  while (!AwaitFor(answer->mutex, told, kCodePause)) {
    if (outbox_.gone()) return absl::CancelledError("the client is gone");
  }
  return *std::move(answer->code);
}

absl::StatusOr<PoolSeat> StreamOpening::TryCode(const v1::Open& open,
                                                const PipelineConfig& pipeline,
                                                const v1::MemoryPlan& plan) const {
  if (!context_.directory->IsHeld(OwnedName(open), open.rank())) return PoolSeat();
  PoolSeat seat = context_.supervisor->TrySeat(pipeline, plan.slot_count(), plan.slot_bytes());
  if (seat != nullptr) BULKHEAD_RETURN_IF_ERROR(AwaitCode(seat).status());
  return seat;
}

absl::StatusOr<std::shared_ptr<ArenaClient>> StreamOpening::ClientAtDoor(
    const v1::Open& open) const {
  std::string why_not;
  if (open.arena_token().empty()) {
    why_not = "the client did not come through the arena door";
  } else if (context_.door == nullptr) {
    why_not = "this service has no arena door, because it listens on TCP or its log says why";
  } else if (auto client = context_.door->FindClient(open.arena_token()); client != nullptr) {
    return client;
  } else {
    why_not = "the client's connection to the arena door is not one to this service";
  }
  return absl::NotFoundError(why_not);
}

absl::Status StreamOpening::CheckTransport(const v1::Open& open) const {
  if (open.transport() != v1::TRANSPORT_SHM) return absl::OkStatus();
  const auto client = ClientAtDoor(open);
  return client.ok() ? absl::OkStatus() : TransportUnavailable(client.status());
}

absl::StatusOr<Outbox::Transport> StreamOpening::ChooseTransport(
    const v1::Open& open, const Arena& arena, ArenaClient::OnReleased on_released,
    v1::Opened& opened) const {
  Outbox::Transport transport;
  opened.set_transport(v1::TRANSPORT_GRPC);
  if (open.transport() == v1::TRANSPORT_GRPC) return transport;
  absl::StatusOr<std::shared_ptr<ArenaClient>> client = ClientAtDoor(open);
  const absl::StatusOr<uint64_t> id =
      client.ok() ? (*client)->Grant(arena, std::move(on_released)) : client.status();
  if (!id.ok()) {
    if (open.transport() == v1::TRANSPORT_SHM) return TransportUnavailable(id.status());
    opened.set_transport_reason(std::string(id.status().message()));
    return transport;
  }
  opened.set_transport(v1::TRANSPORT_SHM);
  opened.set_arena_id(*id);
  opened.set_announced_at_door(open.announce_at_door());
  claims_.Add([client = *client, id = *id] { client->Retire(id); });
  transport.client = *std::move(client);
  transport.arena_id = *id;
  transport.at_door = open.announce_at_door();
  transport.slots = arena.slot_count() - 1;  // one is kept for redoing the head
  return transport;
}

std::function<void(const v1::QuarantinedRecord&)> StreamOpening::Remember(
    const std::string& fingerprint) const {
  return [store = context_.quarantine, io = context_.io,
          fingerprint](const v1::QuarantinedRecord& record) {
    if (absl::Status added = store->Add(record, fingerprint); !added.ok()) {
      spdlog::warn("a quarantined record will not be remembered: {}", std::string(added.message()));
      return;
    }
    // Not on this thread, which is the supervisor's: the disk may hang.
    QuarantineStore::SaveSoon(store, *io);
  };
}

}  // namespace bulkhead
