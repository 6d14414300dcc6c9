#ifndef BULKHEAD_SERVER_SUPERVISOR_CACHE_SEGMENTS_H_
#define BULKHEAD_SERVER_SUPERVISOR_CACHE_SEGMENTS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bulkhead/v1/loader.pb.h"
#include "server/cache/segment_folder.h"
#include "server/os/event_loop.h"
#include "server/os/files/io_thread.h"
#include "server/supervisor/pool_worker.h"

namespace bulkhead {

// Hands the segments of one cache out to workers: those that their trust domain may read to
// everyone, and one to each for writing, where there is room. What stands in them is the workers'
// business. Lives on the supervisor's thread, which never waits for the folder's disk:
//
//   Tell ──what is wanted──▶ I/O thread: SegmentFolder ──answer, posted──▶ on_news ──▶ Tell
//
// One question is under way at a time. While the disk does not answer, workers go on without.
class CacheSegments {
 public:
  struct Config {
    internal::v1::CacheKind kind = internal::v1::CACHE_KIND_SEEK;
    std::optional<SegmentFolder::Config> folder;  // absent: nothing is kept,
    std::string reason;                           // and why
  };

  // `on_news` is called when workers have to be told. Loop and object are there until either is
  // gone for good.
  CacheSegments(Config config, std::shared_ptr<EventLoop> loop, std::shared_ptr<IoThread> io,
                std::function<void()> on_news);

  // Tells a worker, once it is bound, of segments that it does not know yet. With `writes` it is
  // given one of `domain` to write to, if it has none: now or with later news. Cheap when there is
  // nothing to tell.
  void Tell(PoolWorker& worker, const std::string& domain, bool writes);
  // Whether a worker that writes has its segment, or need not be waited for.
  bool IsSettled(const PoolWorker& worker) const;
  // The worker's segment is full; the next Tell gives it another.
  void OnFull(PoolWorker& worker) { GiveBack(worker); }
  // The worker is gone, or will write no more.
  void OnGone(PoolWorker& worker) { GiveBack(worker); }

  internal::v1::CacheKind kind() const { return config_.kind; }
  void Describe(v1::CacheStatus& status) const;

 private:
  using Segment = std::shared_ptr<const SegmentFolder::Segment>;
  // What the I/O thread says.
  struct Answer {
    std::vector<Segment> segments;
    std::vector<absl::Status> refused;
    Segment lent;  // null: none was wanted, or `status` says why not
    absl::Status status;
  };

  static Answer Work(const SegmentFolder::Config& config, std::unique_ptr<SegmentFolder>& folder,
                     const std::vector<uint64_t>& given_back,
                     const std::optional<std::string>& wanted);
  // Asks the I/O thread for what is due, unless it is at it.
  void Ask();
  void OnAnswer(Answer answer);
  void NoteFailure(const absl::Status& status);
  bool stalled() const;

  PoolWorker::Segments& Of(PoolWorker& worker) const { return worker.segments[config_.kind]; }
  void Send(PoolWorker& worker, int fd, bool writable) const;
  void GiveBack(PoolWorker& worker);

  const Config config_;
  const std::shared_ptr<EventLoop> loop_;
  const std::shared_ptr<IoThread> io_;
  const std::function<void()> on_news_;
  // Of the I/O thread.
  const std::shared_ptr<std::unique_ptr<SegmentFolder>> folder_;

  std::vector<Segment> segments_;      // as of the last answer
  Segment offered_;                    // while it is looked for somebody who writes to it
  std::optional<std::string> wanted_;  // domain that somebody wants a segment of
  std::vector<uint64_t> given_back_;
  bool opened_ = false;
  int64_t asked_ns_ = 0;  // since when a question is under way; 0: none is
  std::string reason_;
  int64_t no_lending_before_ns_ = 0;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SUPERVISOR_CACHE_SEGMENTS_H_
