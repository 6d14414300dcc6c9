#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "bulkhead/v1/loader.pb.h"
#include "server/service/outbox.h"
#include "server/service/session_context.h"
#include "server/service/stream_claims.h"
#include "server/service/stream_log.h"

namespace bulkhead {

// The client that opens a stream.
struct Caller {
  std::string name;      // from its certificate, or "the token"; empty: clients have no names here
  std::string client;    // for limits: the name, or else the process or the host
  std::string peer;      // its address and name, human-readable
  int process = 0;       // its id; 0: not known here
  uint64_t session = 0;  // its id in the SessionRegistry
  // OK: it may bring code. Else why not, as AccessRights says it.
  absl::Status code = absl::OkStatus();
};

// Takes one stream from Open to its first batch:
//
//   understand the spec ─▶ find its data ─▶ check the cursor ─▶ claim the name ─▶ be admitted to a
//   pool ─▶ know the user's code ─▶ choose the transport ─▶ be opened on that pool
//
// Run blocks; it has a thread of its own.
class StreamOpening {
 public:
  // What the opening needs of its session.
  struct Session {
    std::shared_ptr<StreamObserver> observer;
    StreamDirectory::Evict evict;
    ArenaClient::OnReleased on_released;
  };

  StreamOpening(const SessionContext& context, Caller caller, Outbox& outbox, StreamClaims& claims,
                StreamLog& log)
      : context_(context),
        caller_(std::move(caller)),
        outbox_(outbox),
        claims_(claims),
        log_(log) {}

  // Opens the stream: `outbox` has the answer when the observer's OnAdded is called. Errors are the
  // call's. Once the spec is processed, `open` loses it and the turn of `place` ends.
  absl::Status Run(v1::Open& open, RequestMemory::Place& place, Session session);
  // The opened stream failed: its indexes may be damaged.
  void OnFailed(const absl::Status& status) const {
    context_.preparer->NoteDamage(resolved_, status);
  }

 private:
  absl::Status Open(v1::Open& open, RequestMemory::Place& place, Session session);
  // The stream's key in the directory. It contains the caller's name, so that a caller can take
  // over only its own streams.
  std::string OwnedName(const v1::Open& open) const;
  // Sends the spec's warnings to the client's log.
  void Warn(const std::vector<std::string>& warnings) const;
  // The stream's name is this connection's, until `claims_` end. From now on the call may lose its
  // place.
  absl::Status Claim(const v1::Open& open, uint64_t connection, StreamDirectory::Evict evict,
                     std::shared_ptr<Legacy>& legacy);
  // Waits a little for the memory of streams that are about to end, such as the client's previous
  // one. If that is not enough, the arena gets as many slots as fit; if it is, up to `more_slots`
  // beside its own. `plan` then has as many.
  absl::StatusOr<Admission> Admit(const PipelineConfig& pipeline, v1::MemoryPlan& plan,
                                  uint32_t more_slots, Legacy* legacy) const;
  // Waits until a worker has loaded the user's code, and returns its files.
  absl::StatusOr<std::vector<v1::CodeFile>> AwaitCode(const PoolSeat& pool) const;
  // If the stream's name has a holder, checks that workers can load the user's code before the name
  // is taken from it. Does so only if there is room for such workers beside the holder's; they are
  // kept for the admission.
  absl::StatusOr<PoolSeat> TryCode(const v1::Open& open, const PipelineConfig& pipeline,
                                   const v1::MemoryPlan& plan) const;
  // The client's connection to the arena door. NOT_FOUND, with the cause, if there is none.
  absl::StatusOr<std::shared_ptr<ArenaClient>> ClientAtDoor(const v1::Open& open) const;
  // FAILED_PRECONDITION (TRANSPORT_UNAVAILABLE) if ChooseTransport would fail for lack of a
  // connection to the door.
  absl::Status CheckTransport(const v1::Open& open) const;
  // Passes the arena through the door if client and service support it; `opened` gets the result.
  absl::StatusOr<Outbox::Transport> ChooseTransport(const v1::Open& open, const Arena& arena,
                                                    ArenaClient::OnReleased on_released,
                                                    v1::Opened& opened) const;
  // Adds a quarantined record to the service's store.
  std::function<void(const v1::QuarantinedRecord&)> Remember(const std::string& fingerprint) const;

  const SessionContext& context_;
  const Caller caller_;
  Outbox& outbox_;
  StreamClaims& claims_;
  StreamLog& log_;
  internal::v1::ResolvedSource resolved_;
};

}  // namespace bulkhead
