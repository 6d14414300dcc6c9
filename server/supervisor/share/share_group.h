#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "server/base/rate_limit.h"
#include "server/os/event_loop.h"
#include "server/os/files/io_thread.h"
#include "server/supervisor/leases/stream.h"
#include "server/supervisor/memory/memory_budget.h"
#include "server/supervisor/share/share_window.h"

namespace bulkhead {

// What groups need of their pool and of the supervisor.
struct ShareContext {
  std::shared_ptr<EventLoop> loop;
  std::shared_ptr<IoThread> copier;  // copies batches
  MemoryBudget* budget = nullptr;
  uint32_t window = 0;  // batches that a group keeps
  std::string pipeline;
  std::function<uint64_t()> new_stream_id;
  std::function<void()> dispatch;  // leases have become available
  std::function<void(std::shared_ptr<Stream>)> add_stream;
  std::function<void(uint64_t)> remove_stream;
  std::function<void(const internal::v1::ToWorker&)> send_workers;
  // See PoolContext.
  std::function<void(const MemoryBudget::Demand&)> make_room;
  // Runs `work` on the loop's thread after the current task, unless the pool is gone by then.
  std::function<void(std::function<void()>)> later;
};

// Streams whose batches are equal: one spec, order, seed, rank, world and quarantine set. A batch
// that two of them need soon is made once, by a stream that the group adds to the pool for that
// (its maker), in an arena of the group's own; each member gets a copy in its own slot. So a
// trainer that writes into its batch changes nobody else's, and a member's slots are its own as
// always.
//
//   members ──Ask──▶ window ──▶ maker ──OnMade──▶ made ──copier──▶ a member's slot
//
// The maker is optional: without it, or when it fails, its members make their batches themselves,
// and meet its error themselves. Lives on the supervisor's thread.
class ShareGroup : public std::enable_shared_from_this<ShareGroup> {
 public:
  // No maker begins for this long after one has failed or gave way to others.
  static constexpr absl::Duration kMakerPause = absl::Seconds(10);

  // `quarantine_digest`: of its members' set.
  ShareGroup(const ShareContext& context, std::string quarantine_digest)
      : context_(context),
        quarantine_digest_(std::move(quarantine_digest)),
        window_(context.window) {}

  // The member will begin batch `sequence` next.
  void Join(const std::shared_ptr<Stream>& member, uint64_t sequence);
  void Leave(uint64_t member);
  bool empty() const { return members_.empty(); }
  size_t members() const { return members_.size(); }

  // See BatchBringer::Bring.
  ShareWindow::Answer Bring(const BroughtBatch& batch);

  // Bytes of the arena; 0: there is none.
  uint64_t arena_bytes() const { return maker_ == nullptr ? 0 : maker_->arena->bytes(); }
  // Ends the maker, because others need its memory. False if there is none. Not from within a call
  // of a stream.
  bool GiveUpMaker();
  uint32_t NearOf(uint64_t member) const { return window_.NearOf(member); }
  // Why the member shares nothing now, human-readable; empty: it shares, or will soon.
  std::string WhyNothing(uint64_t member) const;

  // The maker's events.
  void OnMade(ReadyBatch batch);
  void OnEnded(const absl::Status& status);
  void OnQuarantined(const v1::QuarantinedRecord& record);
  void Forward(const std::function<void(StreamObserver&)>& event) const;

 private:
  // A member waits for a batch.
  struct Waiter {
    std::weak_ptr<Stream> stream;
    uint64_t stream_id = 0;
    uint32_t slot = 0;
    LeaseTable::WorkerId bringer = 0;
  };
  struct Made {
    std::shared_ptr<const SlotHold> hold;
    std::shared_ptr<const std::vector<internal::v1::Substitution>> substitutions;
  };
  struct Maker {
    uint64_t stream_id = 0;  // 0: its arena is still being filled with pages
    std::shared_ptr<Arena> arena;
    std::shared_ptr<ArenaMemory> memory;
    std::shared_ptr<Assignments> orders = std::make_shared<Assignments>();
    // What is ordered, by the maker's sequence.
    std::shared_ptr<std::map<uint64_t, v1::BatchHeader>> ordered =
        std::make_shared<std::map<uint64_t, v1::BatchHeader>>();
    uint64_t next = 0;
  };

  // Begins a maker for streams like `member`, unless there is no memory for it.
  void StartMaker(const Stream& member);
  StreamConfig MakerConfig(const Stream& member);
  // Fills the arena with pages from that slot on, then begins the maker. Copies get in between.
  void FillFrom(uint32_t slot, const std::shared_ptr<StreamConfig>& config);
  void NoteRefusal(std::string reason);
  // No maker begins for kMakerPause.
  void Pause(std::string reason) {
    no_maker_before_ns_ = MonotonicNanos() + absl::ToInt64Nanoseconds(kMakerPause);
    reason_ = std::move(reason);
  }
  // Ends the maker; members that wait make their batches.
  void EndMaker();
  // The same after the current task, because its events come from inside the pool's streams.
  void EndMakerSoon();
  void Order(const v1::BatchHeader& header);
  void Copy(const Made& made, const std::vector<Waiter>& waiters);
  void GiveBack(const Waiter& waiter) const;
  void DropUnkept() {
    for (const SharedRange& range : window_.TakeDropped()) made_.erase(range);
  }

  const ShareContext& context_;
  const std::string quarantine_digest_;
  ShareWindow window_;
  std::map<uint64_t, std::weak_ptr<Stream>> members_;
  std::map<SharedRange, std::vector<Waiter>> waiting_;
  std::map<SharedRange, Made> made_;
  std::unique_ptr<Maker> maker_;  // null: there is none
  int64_t no_maker_before_ns_ = 0;
  std::string reason_;  // why there is no maker; empty: none was needed, or there is one
  RateLimit refusals_told_{1.0 / 60, 1};
};

}  // namespace bulkhead
