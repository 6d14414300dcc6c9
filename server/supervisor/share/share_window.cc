#include "server/supervisor/share/share_window.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace bulkhead {

void ShareWindow::Join(Member member, BatchAt batch_at, uint64_t sequence) {
  Upcoming& upcoming = members_[member];
  upcoming.batch_at = std::move(batch_at);
  Fill(upcoming, sequence);
}

ShareWindow::Answer ShareWindow::Ask(Member member, uint64_t sequence, const SharedRange& range,
                                     bool can_make) {
  const auto found = members_.find(member);
  if (found == members_.end()) return Answer::kAlone;
  Fill(found->second, sequence + 1);
  Answer answer = Answer::kAlone;
  if (const auto kept = kept_.find(range); kept != kept_.end()) {
    answer = kept->second.made ? Answer::kTake : Answer::kWait;
  } else if (IsNeeded(range)) {
    DropUnneeded();
    if (!can_make) {
      answer = Answer::kWould;
    } else if (kept_.size() < batches_ || DropOldest()) {
      kept_[range].number = next_number_++;
      answer = Answer::kMake;
    } else {
      answer = Answer::kFull;
    }
  }
  DropUnneeded();
  return answer;
}

bool ShareWindow::NoteMade(const SharedRange& range) {
  const auto found = kept_.find(range);
  if (found == kept_.end()) return false;
  found->second.made = true;
  DropUnneeded();
  return true;
}

uint32_t ShareWindow::NearOf(Member member) const {
  const auto found = members_.find(member);
  if (found == members_.end()) return 0;
  const std::set<SharedRange>& own = found->second.ranges;
  const auto is_near = [&](const auto& other) {
    return other.first != member && std::ranges::any_of(own, [&](const auto& range) {
             return other.second.ranges.contains(range);
           });
  };
  return static_cast<uint32_t>(std::ranges::count_if(members_, is_near));
}

void ShareWindow::Fill(Upcoming& upcoming, uint64_t sequence) const {
  // Batches follow each other, so that of each Ask only one is new.
  const uint64_t known = upcoming.ranges.size();
  const bool follows = known > 0 && sequence + known == upcoming.end + 1;
  if (follows) {
    upcoming.ranges.erase(upcoming.ranges.begin());
  } else {
    upcoming.ranges.clear();
    upcoming.end = sequence;
  }
  while (upcoming.ranges.size() < batches_) {
    const auto range = upcoming.batch_at(upcoming.end);
    if (!range.has_value() || !upcoming.ranges.insert(*range).second) break;
    ++upcoming.end;
  }
}

bool ShareWindow::IsNeeded(const SharedRange& range) const {
  return std::ranges::any_of(
      members_, [&](const auto& member) { return member.second.ranges.contains(range); });
}

void ShareWindow::DropUnneeded() {
  for (auto kept = kept_.begin(); kept != kept_.end();) {
    const auto next = std::next(kept);
    if (kept->second.made && !IsNeeded(kept->first)) Drop(kept);
    kept = next;
  }
}

bool ShareWindow::DropOldest() {
  auto oldest = kept_.end();
  for (auto kept = kept_.begin(); kept != kept_.end(); ++kept) {
    const bool older = oldest == kept_.end() || kept->second.number < oldest->second.number;
    if (kept->second.made && older) oldest = kept;
  }
  if (oldest == kept_.end()) return false;
  Drop(oldest);
  return true;
}

}  // namespace bulkhead
