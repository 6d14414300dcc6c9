#ifndef BULKHEAD_SERVER_SERVICE_STREAM_OPENING_H_
#define BULKHEAD_SERVER_SERVICE_STREAM_OPENING_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "bulkhead/v1/loader.pb.h"
#include "server/service/outbox.h"
#include "server/service/session_context.h"
#include "server/service/stream_claims.h"

namespace bulkhead {

// Who opens a stream.
struct Caller {
  std::string name;      // of its certificate, "the token", or empty: callers have no names here
  std::string peer;      // where it is and who, for people
  uint64_t session = 0;  // by which the SessionRegistry knows the call
};

// The way of one stream from Open to its first batch:
//
//   understand the spec ─▶ find its data ─▶ check the cursor ─▶ claim the name ─▶ be admitted to a
//   pool ─▶ know the user's code ─▶ choose the transport ─▶ be opened on that pool
//
// Works on a thread of its own, which Run blocks.
class StreamOpening {
 public:
  // The session that opens, as others call it.
  struct Session {
    std::shared_ptr<StreamObserver> observer;
    StreamDirectory::Evict evict;
    ArenaClient::OnReleased on_released;
  };

  StreamOpening(const SessionContext& context, Caller caller, Outbox& outbox, StreamClaims& claims)
      : context_(context), caller_(std::move(caller)), outbox_(outbox), claims_(claims) {}

  // Opens the stream: `outbox` has the answer when the observer is told that it was added. Errors
  // are the call's. `open` loses its spec once that is understood, which ends the turn of `place`.
  absl::Status Run(v1::Open& open, RequestMemory::Place& place, Session session);
  // The opened stream failed: what was found of its data may be damaged.
  void OnFailed(const absl::Status& status) const {
    context_.preparer->NoteDamage(resolved_, status);
  }

 private:
  absl::Status Open(v1::Open& open, RequestMemory::Place& place, Session session);
  // By which the directory knows the stream: a caller with a name can take over its own only.
  std::string OwnedName(const v1::Open& open) const;
  // Sends what is doubtful about the spec to the client's log.
  void Warn(const std::vector<std::string>& warnings) const;
  // The stream's name is this connection's, until `claims_` end. From now on the call may lose its
  // place.
  absl::Status Claim(const v1::Open& open, uint64_t connection, StreamDirectory::Evict evict,
                     std::shared_ptr<Legacy>& legacy);
  // Waits a little for memory of streams that are about to end: the client's own last one, say.
  // What does not come by then it does without, if fewer slots fit: `plan` says how many.
  absl::StatusOr<Admission> Admit(const PipelineConfig& pipeline, v1::MemoryPlan& plan,
                                  Legacy* legacy) const;
  // Waits until a worker has loaded the user's code, and returns which files that is.
  absl::StatusOr<std::vector<v1::CodeFile>> AwaitCode(const PoolSeat& pool) const;
  // Finds out whether workers can load the user's code before the name is taken from its holder, if
  // there is one, and room for such workers beside its own. They stay for the admission.
  absl::StatusOr<PoolSeat> TryCode(const v1::Open& open, const PipelineConfig& pipeline,
                                   const v1::MemoryPlan& plan) const;
  // The client's connection to the arena door. NOT_FOUND, saying why there is none.
  absl::StatusOr<std::shared_ptr<ArenaClient>> ClientAtDoor(const v1::Open& open) const;
  // FAILED_PRECONDITION (TRANSPORT_UNAVAILABLE) when ChooseTransport would refuse for lack of one.
  absl::Status CheckTransport(const v1::Open& open) const;
  // Passes the arena through the door if client and service can; `opened` says what came of it.
  absl::StatusOr<Outbox::Transport> ChooseTransport(const v1::Open& open, const Arena& arena,
                                                    ArenaClient::OnReleased on_released,
                                                    v1::Opened& opened) const;
  // Adds a quarantined record to what the service remembers.
  std::function<void(const v1::QuarantinedRecord&)> Remember(const std::string& fingerprint) const;

  const SessionContext& context_;
  const Caller caller_;
  Outbox& outbox_;
  StreamClaims& claims_;
  internal::v1::ResolvedSource resolved_;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SERVICE_STREAM_OPENING_H_
