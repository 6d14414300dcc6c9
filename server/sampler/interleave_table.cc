#include "server/sampler/interleave_table.h"

#include <algorithm>
#include <functional>
#include <queue>

namespace bulkhead {

InterleaveTable::InterleaveTable(const std::vector<FileRecords>& files, uint64_t cycle_length,
                                 uint64_t block_length)
    : block_length_(block_length), slots_(std::min<uint64_t>(cycle_length, files.size())) {
  struct Opened {
    uint32_t slot;
    Stay stay;
  };
  std::vector<Opened> opened;  // in the files' order
  std::vector<uint64_t> rest(slots_);
  std::priority_queue<Turn, std::vector<Turn>, std::greater<Turn>> last_turns;
  const auto open = [&](const Turn& turn) {
    const FileRecords& file = files[opened.size()];
    opened.push_back({turn.slot, {turn.round, file.first_record}});
    rest[turn.slot] = file.count % block_length_;
    last_turns.push({turn.round + file.count / block_length_, turn.slot});
  };

  // While there are files, every slot lives.
  segments_.emplace_back();
  for (uint32_t slot = 0; slot < slots_; ++slot) open({0, slot});
  while (opened.size() < files.size()) {
    const Turn turn = last_turns.top();
    last_turns.pop();
    EndSegment(turn, rest[turn.slot], false);
    open({turn.round + 1, turn.slot});
  }
  std::vector<Turn> deaths;
  std::vector<uint32_t> dying;
  for (; !last_turns.empty(); last_turns.pop()) {
    deaths.push_back(last_turns.top());
    dying.push_back(last_turns.top().slot);
  }
  dying_.emplace(std::move(dying));
  for (const Turn& turn : deaths) EndSegment(turn, rest[turn.slot], true);

  // Stays by slot: count, then deal out; those of a slot are in the order of their rounds already.
  stays_begin_.resize(slots_ + 1);
  for (const Opened& file : opened) ++stays_begin_[file.slot + 1];
  for (uint64_t slot = 0; slot < slots_; ++slot) stays_begin_[slot + 1] += stays_begin_[slot];
  stays_.resize(opened.size());
  std::vector<uint64_t> next(stays_begin_.begin(), stays_begin_.end() - 1);
  for (const Opened& file : opened) stays_[next[file.slot]++] = file.stay;
}

uint64_t InterleaveTable::RecordAt(uint64_t position) const {
  // Segments may be empty; the last one that begins here is the one that holds the position.
  const Segment& segment =
      *std::prev(std::ranges::upper_bound(segments_, position, {}, &Segment::first_position));
  const uint64_t offset = position - segment.first_position;
  const uint64_t living = slots_ - segment.dead;
  const uint64_t turn = segment.place + offset / block_length_;  // among turns of living slots
  const uint64_t round = segment.round + turn / living;
  const uint64_t k = turn % living;  // of the living slots
  const uint32_t slot =
      segment.dead == 0 ? static_cast<uint32_t>(k) : dying_->Select(segment.dead, k);
  const Stay& stay = *std::prev(std::ranges::upper_bound(stays_.begin() + stays_begin_[slot],
                                                         stays_.begin() + stays_begin_[slot + 1],
                                                         round, {}, &Stay::first_round));
  return stay.first_record + (round - stay.first_round) * block_length_ + offset % block_length_;
}

void InterleaveTable::EndSegment(const Turn& last_turn, uint64_t rest, bool slot_dies) {
  const Segment& segment = segments_.back();
  const uint64_t living = slots_ - segment.dead;
  // Living slots below this one.
  const uint64_t below =
      segment.dead == 0 ? last_turn.slot : dying_->CountBelow(segment.dead, last_turn.slot);
  const uint64_t full_turns = (last_turn.round - segment.round) * living + below - segment.place;
  Segment next;
  next.first_position = segment.first_position + full_turns * block_length_ + rest;
  next.round = last_turn.round;
  next.place = below + (slot_dies ? 0 : 1);
  next.dead = segment.dead + (slot_dies ? 1 : 0);
  segments_.push_back(next);
}

}  // namespace bulkhead
