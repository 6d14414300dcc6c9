#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "server/base/rate_limit.h"
#include "server/supervisor/share/share_group.h"

namespace bulkhead {

// The streams of a pool that share batches, in their groups. A stream changes its group when its
// quarantine set changes. Lives on the supervisor's thread.
class ShareGroups final : public BatchBringer {
 public:
  // `later` is filled in here. Without a window nothing is shared.
  explicit ShareGroups(ShareContext context);
  ~ShareGroups() override;
  ShareGroups(const ShareGroups&) = delete;
  ShareGroups& operator=(const ShareGroups&) = delete;

  // Before the stream begins its first batch. Does nothing unless it has a key (StreamConfig).
  void Join(const std::shared_ptr<Stream>& stream);
  void Leave(uint64_t stream_id);
  bool Bring(const BroughtBatch& batch) override;

  // Bytes of the makers' arenas: streams can do without.
  uint64_t spare_bytes() const;
  // Ends one of them, as ShareGroup::GiveUpMaker. False if there is none.
  bool GiveUpOne();

  // Fills in the stream's share, if its client asked for that.
  void Describe(const Stream& stream, v1::StreamStatus& status) const;

 private:
  struct Member {
    std::weak_ptr<Stream> stream;
    std::shared_ptr<ShareGroup> group;
    uint64_t fell_out = 0;
    bool shares = false;  // its last batch was shared
  };

  // From batch `sequence` on the member belongs to the group with that quarantine set.
  void Enter(uint64_t stream_id, Member& member, const std::string& quarantine_digest,
             uint64_t sequence);
  void Exit(uint64_t stream_id, Member& member);
  // Counts the streams that have fallen out.
  void Note(Member& member, ShareWindow::Answer answer);

  ShareContext context_;
  // False once this object is gone.
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::map<uint64_t, Member> members_;
  std::map<std::string, std::shared_ptr<ShareGroup>> groups_;  // by share key and quarantine set
  RateLimit told_{0.1, 5};                                     // that streams fell out
};

}  // namespace bulkhead
