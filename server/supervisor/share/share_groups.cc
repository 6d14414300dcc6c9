#include "server/supervisor/share/share_groups.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace bulkhead {

ShareGroups::ShareGroups(ShareContext context) : context_(std::move(context)) {
  context_.later = [loop = context_.loop, alive = alive_](std::function<void()> work) {
    loop->Post([alive, work = std::move(work)] {
      if (*alive) work();
    });
  };
}

ShareGroups::~ShareGroups() { *alive_ = false; }

void ShareGroups::Join(const std::shared_ptr<Stream>& stream) {
  const StreamConfig& config = stream->config();
  if (config.share_key.empty() || context_.window == 0) return;
  Member& member = members_[stream->id()];
  member.stream = stream;
  Enter(stream->id(), member, config.quarantined.Digest(), /*sequence=*/0);
  stream->brought().SetBringer(this);
}

void ShareGroups::Leave(uint64_t stream_id) {
  const auto found = members_.find(stream_id);
  if (found == members_.end()) return;
  if (const auto stream = found->second.stream.lock()) stream->brought().SetBringer(nullptr);
  Exit(stream_id, found->second);
  members_.erase(found);
}

void ShareGroups::Enter(uint64_t stream_id, Member& member, const std::string& quarantine_digest,
                        uint64_t sequence) {
  const std::shared_ptr<Stream> stream = member.stream.lock();
  if (stream == nullptr) return;
  std::shared_ptr<ShareGroup>& group =
      groups_[absl::StrCat(stream->config().share_key, "/", quarantine_digest)];
  if (group == member.group && group != nullptr) return;
  if (group == nullptr) group = std::make_shared<ShareGroup>(context_, quarantine_digest);
  const std::shared_ptr<ShareGroup> entered = group;
  Exit(stream_id, member);
  member.group = entered;
  entered->Join(stream, sequence);
}

void ShareGroups::Exit(uint64_t stream_id, Member& member) {
  if (member.group == nullptr) return;
  member.group->Leave(stream_id);
  if (member.group->empty()) {
    std::erase_if(groups_, [&](const auto& entry) { return entry.second == member.group; });
  }
  member.group = nullptr;
}

bool ShareGroups::Bring(const BroughtBatch& batch) {
  const auto found = members_.find(batch.stream_id);
  if (found == members_.end()) return false;
  Member& member = found->second;
  Enter(batch.stream_id, member, batch.quarantine_digest, batch.header.sequence());
  const ShareWindow::Answer answer = member.group->Bring(batch);
  Note(member, answer);
  return ShareWindow::IsShared(answer);
}

void ShareGroups::Note(Member& member, ShareWindow::Answer answer) {
  if (ShareWindow::IsShared(answer)) member.shares = true;
  if (answer != ShareWindow::Answer::kAlone) return;
  if (!std::exchange(member.shares, false) || member.group->members() < 2) return;
  ++member.fell_out;
  const std::shared_ptr<Stream> stream = member.stream.lock();
  if (stream == nullptr || !told_.Take(MonotonicNanos())) return;
  spdlog::info(
      "stream {} of rank {} makes its batches alone: it is more than {} batches from the other "
      "streams of its group",
      stream->config().about.name(), stream->config().about.rank(), context_.window);
}

uint64_t ShareGroups::spare_bytes() const {
  uint64_t bytes = 0;
  for (const auto& [key, group] : groups_) bytes += group->arena_bytes();
  return bytes;
}

bool ShareGroups::GiveUpOne() {
  return std::ranges::any_of(groups_,
                             [](const auto& entry) { return entry.second->GiveUpMaker(); });
}

void ShareGroups::Describe(const Stream& stream, v1::StreamStatus& status) const {
  if (const std::string& why = stream.config().unshared; !why.empty()) {
    status.mutable_share()->set_reason(why);
  }
  const auto found = members_.find(stream.id());
  if (found == members_.end()) return;
  const Member& member = found->second;
  v1::ShareStatus& share = *status.mutable_share();
  share.set_members(static_cast<uint32_t>(member.group->members()));
  share.set_near(member.group->NearOf(stream.id()));
  share.set_batches_shared(stream.brought().shared());
  share.set_batches_alone(stream.brought().alone());
  share.set_times_fallen_out(member.fell_out);
  share.set_window(context_.window);
  share.set_window_bytes(member.group->arena_bytes());
  share.set_reason(member.group->WhyNothing(stream.id()));
}

}  // namespace bulkhead
