#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "bulkhead/v1/loader.pb.h"
#include "client/cpp/internal/base/steady.h"
#include "client/cpp/internal/batch/batch_data.h"
#include "client/cpp/internal/fleet/cursors.h"
#include "client/cpp/internal/fleet/member.h"
#include "client/cpp/internal/fleet/striping.h"

namespace bulkhead::client_internal {

// The batches of a fleet: what the replicas are asked for, what came, and the cursor. Guarded by
// the fleet's mutex.
class Assembly {
 public:
  using Members = std::vector<std::shared_ptr<Member>>;

  // `credits`: those of the loader.
  explicit Assembly(const v1::Credits& credits) : credits_(credits) {}

  const Striping& striping() const { return striping_; }
  bool begun() const { return begun_; }  // batches are asked for
  // Batches that came and were not handed out.
  uint64_t ready() const { return batches_.size(); }
  // What the first replica said; after Compare.
  const StreamInfo& info() const { return info_; }
  // After the last batch that was handed out; null: no replica was open yet.
  const v1::Cursor* cursor() const { return cursors_ ? &cursors_->cursor() : nullptr; }
  absl::Duration now() const { return clock_.elapsed(); }

  // CURSOR_MISMATCH when the member's stream is another one than that of the replicas before it.
  absl::Status Compare(const Member& member, const Stream& stream);
  // Asks the members for the first batches. `count`: of all replicas.
  void Begin(const Members& members, size_t count);
  // There are so many replicas now.
  void Resize(size_t count);
  void Join(const Members& members);
  void Leave(const Member& member);
  // A batch came. Whether the head is here now. Errors: PROTOCOL_VIOLATION for one that nobody
  // asked for, CODE_CHANGED.
  absl::StatusOr<bool> Arrived(const Member& member, std::unique_ptr<BatchData> batch);
  // The head, which is here. DATA_LOSS (TOO_MANY_SUBSTITUTIONS).
  absl::StatusOr<std::unique_ptr<BatchData>> HandOut();
  // Asks others for the batches of a replica that is late.
  void Look();
  // All records in quarantine.
  std::set<std::string> quarantined() const { return cursors_->quarantined(); }
  // Whether these records add some. RESOURCE_EXHAUSTED (QUARANTINE_FULL).
  absl::StatusOr<bool> Quarantine(const std::set<std::string>& records);
  // What came and was not handed out is made again.
  void Redo();
  // Who is at the head, for an error; empty: nobody.
  std::string WhyLate() const;

 private:
  void Send();

  const v1::Credits credits_;
  const Stopwatch clock_;
  Striping striping_{1};
  std::map<uint64_t, std::shared_ptr<Member>> makers_;  // by their ids in striping_
  std::map<uint64_t, std::unique_ptr<BatchData>> batches_;
  std::optional<Cursors> cursors_;
  v1::Opened opened_;
  std::string opened_by_;
  StreamInfo info_;
  bool begun_ = false;
};

}  // namespace bulkhead::client_internal
