#include "client/cpp/internal/fleet/assembly.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cpp/internal/base/error.h"
#include "client/cpp/internal/batch/layout.h"
#include "client/cpp/internal/stream/losses.h"

namespace bulkhead::client_internal {
namespace {

std::string Fingerprints(const v1::Opened& opened) {
  return absl::StrCat(opened.cursor().order_fingerprint().substr(0, 8), " ",
                      opened.cursor().bytes_fingerprint().substr(0, 8));
}

// Batches until the end of the last epoch; absent: there is no end.
std::optional<uint64_t> TotalOf(const v1::Opened& opened) {
  if (!opened.has_epochs()) return std::nullopt;
  if (opened.cursor().epoch() >= opened.epochs()) return 0;
  const uint64_t whole = opened.epochs() - opened.cursor().epoch() - 1;
  return opened.batches_left_in_epoch() + whole * opened.batches_per_epoch();
}

}  // namespace

bool Member::Passes(const absl::Status& error) {
  const std::string reason = ErrorReason(error);
  return IsLost(error) || IsRefused(error) || reason == client_reason::kCredentialsInvalid ||
         reason == client_reason::kDeadlineExceeded || reason == client_reason::kOutOfThreads;
}

absl::Status Assembly::Compare(const Member& member, const Stream& stream) {
  const v1::Opened& opened = stream.opened();
  if (!cursors_.has_value()) {
    opened_ = opened;
    opened_by_ = member.replica.target;
    info_ = stream.info();
    cursors_.emplace(opened.cursor(), opened.max_substitutions());
    striping_.SetTotal(TotalOf(opened));
  }
  const std::vector<std::string> changed = Differences(opened_, opened);
  if (changed.empty()) return absl::OkStatus();
  return MakeClientError(
      absl::StatusCode::kFailedPrecondition, "CURSOR_MISMATCH",
      absl::StrCat("the replica at ", member.replica.target,
                   " offers another stream than the one at ", opened_by_,
                   "; different: ", absl::StrJoin(changed, ", "),
                   " (fingerprints of order and bytes ", Fingerprints(opened), ", there ",
                   Fingerprints(opened_), "); give all replicas the same data, release and code"),
      {{"target", member.replica.target}});
}

void Assembly::Begin(const Members& members, size_t count) {
  info_.cursor = CursorToJson(cursors_->cursor());  // with the records of all of them
  begun_ = true;
  Resize(count);
  Join(members);
}

void Assembly::Resize(size_t count) {
  if (!begun_) return;
  // `credits`, and two for each replica to work on; as many as the credit in bytes allows.
  const uint64_t fitting = credits_.bytes() / std::max<uint64_t>(info_.batch_bytes, 1);
  const uint64_t most = std::max<uint64_t>(fitting, count + 1);
  striping_.Widen(std::min<uint64_t>(credits_.batches() + 2 * count, most), now());
  Send();
}

void Assembly::Join(const Members& members) {
  if (!begun_) return;
  std::vector<Striping::Replica> ids;
  for (const auto& member : members) {
    makers_[member->id] = member;
    ids.push_back(member->id);
  }
  striping_.Join(ids, now());
  Send();
}

void Assembly::Leave(const Member& member) {
  if (makers_.erase(member.id) == 0) return;
  striping_.Leave(member.id, now());
  Send();
}

absl::StatusOr<bool> Assembly::Arrived(const Member& member, std::unique_ptr<BatchData> batch) {
  BULKHEAD_RETURN_IF_ERROR(cursors_->NoteCode(batch->header.code(), member.replica.target));
  const uint64_t number = batch->header.sequence() + member.base;
  if (number >= striping_.end()) {
    return ProtocolError(absl::StrCat("batch ", number, " came, which nobody asked for"));
  }
  if (striping_.Arrived(member.id, number, now())) batches_[number] = std::move(batch);
  return striping_.has_head();
}

absl::StatusOr<std::unique_ptr<BatchData>> Assembly::HandOut() {
  const auto head = batches_.find(striping_.head());
  auto cursor = cursors_->After(head->second->header);
  if (!cursor.ok()) return cursor.status();
  std::unique_ptr<BatchData> batch = std::move(head->second);
  batches_.erase(head);
  batch->header.set_sequence(striping_.Take(now()));
  batch->cursor = *std::move(cursor);
  Send();
  return batch;
}

void Assembly::Look() {
  striping_.Tick(now());
  Send();
}

absl::StatusOr<bool> Assembly::Quarantine(const std::set<std::string>& records) {
  const std::set<std::string> before = quarantined();
  if (std::includes(before.begin(), before.end(), records.begin(), records.end())) return false;
  BULKHEAD_RETURN_IF_ERROR(cursors_->Quarantine(records));
  return true;
}

void Assembly::Redo() {
  if (!begun_) return;
  batches_.clear();
  striping_.Redo(now());
  Send();
}

std::string Assembly::WhyLate() const {
  std::vector<std::string> targets;
  std::string activity;
  for (const Striping::Replica id : striping_.Makers(striping_.head())) {
    const Member& member = *makers_.at(id);
    targets.push_back(member.replica.target);
    if (activity.empty() && member.stream != nullptr) activity = member.stream->inbox().activity();
  }
  if (targets.empty()) return "";
  return absl::StrCat(" from ", absl::StrJoin(targets, " and "),
                      activity.empty() ? "" : "; activity of the workers: ", activity);
}

void Assembly::Send() {
  const uint64_t head = striping_.head();
  for (const auto& [id, batches] : striping_.TakeOrders()) {
    const Member& member = *makers_.at(id);
    std::set<uint64_t> numbers;
    for (const uint64_t batch : batches) numbers.insert(batch - member.base);
    member.stream->Ask(numbers, head - std::min(head, member.base));
  }
}

}  // namespace bulkhead::client_internal
