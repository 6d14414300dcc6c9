#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "bulkhead/v1/loader.pb.h"

namespace bulkhead {

// What a batch of a group is made of: where streams have equal ranges, their batches are equal.
struct SharedRange {
  uint64_t epoch = 0;
  uint64_t first_position = 0;
  uint64_t sample_count = 0;
  uint64_t valid_count = 0;

  static SharedRange Of(const v1::BatchHeader& header) {
    return {header.epoch(), header.first_position(), header.sample_count(), header.valid_count()};
  }
  auto operator<=>(const SharedRange&) const = default;
};

// Which batches are made once for several streams, its members, and how long they are kept. Each
// member begins its own batches in its own order; a member is *near* a batch that is among its next
// `batches` ones.
//
//   batch:  not kept ──Ask, another member is near──▶ in work ──NoteMade──▶ made ──▶ not kept
//
// A made batch is kept until no member is near it any more, or until its place is needed: then the
// one that was made first goes. So a member that is far behind finds its next batch no more, and
// makes it alone, as does one that is far ahead; each is near again as soon as the distance allows.
// No member waits for another: it waits at most for a batch that is in work. Pure; used by one
// thread.
class ShareWindow {
 public:
  using Member = uint64_t;
  // Batch `sequence` of a member, from 0; absent after its last.
  using BatchAt = std::function<std::optional<SharedRange>(uint64_t sequence)>;

  // At most `batches` batches are kept, in work or made.
  explicit ShareWindow(uint32_t batches) : batches_(batches) {}

  // The member will begin batch `sequence` next.
  void Join(Member member, BatchAt batch_at, uint64_t sequence = 0);
  // A batch that it waits for stays in work.
  void Leave(Member member) {
    members_.erase(member);
    DropUnneeded();
  }

  enum class Answer {
    kAlone,  // the member makes the batch itself: no other is near
    kFull,   // the same, because all batches that can be kept are in work
    kWould,  // the same, only because `can_make` is false
    kMake,   // the batch is to be made from now on, and the member waits for it
    kWait,   // the batch is in work
    kTake,   // it is made
  };
  // Whether the member gets the batch without making it.
  static bool IsShared(Answer answer) {
    return answer == Answer::kMake || answer == Answer::kWait || answer == Answer::kTake;
  }
  // The member begins a batch.
  Answer Ask(Member member, uint64_t sequence, const SharedRange& range, bool can_make);
  // A batch in work is made; false if it is not kept any more.
  bool NoteMade(const SharedRange& range);
  // The made batches that are kept no more since the last call.
  std::vector<SharedRange> TakeDropped() { return std::exchange(dropped_, {}); }
  // Keeps nothing any more, and reports nothing as dropped.
  void Clear() {
    kept_.clear();
    dropped_.clear();
  }

  size_t kept() const { return kept_.size(); }
  size_t members() const { return members_.size(); }
  // The other members that need one of the next batches of this member within their next ones.
  uint32_t NearOf(Member member) const;

 private:
  struct Upcoming {
    BatchAt batch_at;
    std::set<SharedRange> ranges;  // the next batches, at most `batches_`
    uint64_t end = 0;              // the sequence behind them
  };
  struct Kept {
    bool made = false;
    uint64_t number = 0;  // in the order of making
  };

  void Fill(Upcoming& upcoming, uint64_t sequence) const;
  bool IsNeeded(const SharedRange& range) const;
  // Drops the made batches that no member is near.
  void DropUnneeded();
  // Drops the batch that was made first; false if all are in work.
  bool DropOldest();
  void Drop(std::map<SharedRange, Kept>::iterator kept) {
    dropped_.push_back(kept->first);
    kept_.erase(kept);
  }

  const uint32_t batches_;
  std::map<Member, Upcoming> members_;
  std::map<SharedRange, Kept> kept_;
  std::vector<SharedRange> dropped_;
  uint64_t next_number_ = 0;
};

}  // namespace bulkhead
