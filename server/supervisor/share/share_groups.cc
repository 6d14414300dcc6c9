#include "server/supervisor/share/share_groups.h"

#include <spdlog/spdlog.h>

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
  if (config.share_key.empty() || config.assignments != nullptr || context_.window == 0) return;
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
  Count(member, answer);
  return answer >= ShareWindow::Answer::kMake;
}

void ShareGroups::Count(Member& member, ShareWindow::Answer answer) {
  const bool shared = answer >= ShareWindow::Answer::kMake;
  ++(shared ? member.shared : member.alone);
  const bool fell_out =
      member.shares && answer == ShareWindow::Answer::kAlone && member.group->members() > 1;
  if (answer != ShareWindow::Answer::kWould) member.shares = shared;
  if (!fell_out) return;
  ++member.fell_out;
  const std::shared_ptr<Stream> stream = member.stream.lock();
  if (stream == nullptr || !told_.Take(MonotonicNanos())) return;
  spdlog::info(
      "stream {} of rank {} makes its batches alone: it is more than {} batches from the other "
      "streams of its group",
      stream->config().name, stream->config().rank, context_.window);
}

void ShareGroups::Describe(uint64_t stream_id, v1::StreamStatus& status) const {
  const auto found = members_.find(stream_id);
  if (found == members_.end()) return;
  const Member& member = found->second;
  v1::ShareStatus& share = *status.mutable_share();
  share.set_members(static_cast<uint32_t>(member.group->members()));
  share.set_near(member.group->NearOf(stream_id));
  share.set_batches_shared(member.shared);
  share.set_batches_alone(member.alone);
  share.set_times_fallen_out(member.fell_out);
  share.set_window(context_.window);
  share.set_window_bytes(member.group->arena_bytes());
  share.set_reason(member.group->reason());
}

}  // namespace bulkhead
