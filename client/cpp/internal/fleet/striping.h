#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "absl/time/time.h"
#include "client/cpp/internal/fleet/shares.h"

namespace bulkhead::client_internal {

// Which replica makes which batch of one stream. Every batch is made by some replica, and handed
// out once, in order.
//
//   free ──choose──▶ asked of a replica ──Arrived──▶ here ──Take, the head only──▶ handed out
//    ▲                  │            │
//    └─ Leave, Redo ────┘            └─ late: asked of another one, too; the first copy counts
//
// Batches are numbered in the order of the stream. Those in the window, which begins at the head,
// have been asked for, whenever there is a replica. So a trainer that takes nothing stops the
// replicas, and a replica that stops delays the head only until others have made its batches. Pure:
// no clock, no I/O, no threads; times since any fixed moment are passed in. Not thread-safe. Its
// twin is client/python/bulkhead/_fleet/striping.py.
class Striping {
 public:
  using Replica = Shares::Replica;
  // The batches to ask of a replica, ascending.
  using Orders = std::map<Replica, std::set<uint64_t>>;

  explicit Striping(uint64_t window) : window_(window) {}

  // The next batch to hand out.
  uint64_t head() const { return head_; }
  // The first batch that was never asked for.
  uint64_t end() const { return end_; }
  // Whether all were handed out.
  bool finished() const { return total_.has_value() && head_ >= *total_; }
  bool has_head() const { return here_.count(head_) > 0; }
  // Who was asked for a batch that has not come.
  std::vector<Replica> Makers(uint64_t batch) const;
  // The part of the batches that each replica makes.
  std::map<Replica, double> shares() const { return shares_.Of(window_); }
  // What to ask of whom, once.
  Orders TakeOrders();

  // Batches of the stream; absent: it has no end. Before the first replica joins.
  void SetTotal(std::optional<uint64_t> total) { total_ = total; }
  // Another length of the window, as the replicas become more or fewer.
  void Widen(uint64_t window, absl::Duration now);

  // Replicas can make batches from the head on.
  void Join(const std::vector<Replica>& replicas, absl::Duration now);
  // A replica makes no more; others make what it was asked for.
  void Leave(Replica replica, absl::Duration now);
  // A batch came from a replica. False: it is not needed, because it came before.
  bool Arrived(Replica replica, uint64_t batch, absl::Duration now);
  // The head is handed out; it must be here.
  uint64_t Take(absl::Duration now);
  // What has come and was not handed out is made again.
  void Redo(absl::Duration now);
  // When the head will be late, if it has not come by then; absent: nothing can be done about it.
  std::optional<absl::Duration> LateAt() const;
  // Asks others for the batches of a replica that keeps the head waiting for too long.
  void Tick(absl::Duration now);

 private:
  friend class StripingInspector;  // of the model checker in tests/client

  struct Member {
    std::set<uint64_t> asked;   // that have not come
    absl::Duration busy_since;  // since when it has been at the next one
  };

  std::vector<Replica> Helpers(const std::vector<Replica>& makers) const;
  // Who is likely to have the time first.
  Replica Quickest(const std::vector<Replica>& helpers) const;
  // Those that nobody else was asked for are free.
  void Release(const std::set<uint64_t>& batches);
  void Fill(absl::Duration now);
  void Ask(Replica replica, uint64_t batch, absl::Duration now);

  uint64_t window_;
  std::optional<uint64_t> total_;
  uint64_t head_ = 0;
  uint64_t end_ = 0;
  std::set<uint64_t> free_;  // below end_, asked of nobody now
  std::set<uint64_t> here_;
  std::map<Replica, Member> members_;
  Shares shares_;
  Orders orders_;
  std::deque<absl::Duration> recent_;  // what batches took
  absl::Duration head_since_;
};

}  // namespace bulkhead::client_internal
