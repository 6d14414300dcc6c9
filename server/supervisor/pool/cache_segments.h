#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bulkhead/v1/loader.pb.h"
#include "server/cache/segment_folder.h"
#include "server/os/event_loop.h"
#include "server/os/files/io_thread.h"
#include "server/supervisor/pool/pool_worker.h"

namespace bulkhead {

// Gives workers the segments of one cache: for reading, those of their trust domain and the common
// ones; for writing, one each while there is room. Only workers read their content. Lives on the
// supervisor's thread, which never waits for the folder's disk:
//
//   Tell ──what is wanted──▶ I/O thread: SegmentFolder ──answer, posted──▶ on_news ──▶ Tell
//
// One request is under way at a time. While the disk does not answer, workers go on without.
class CacheSegments {
 public:
  struct Config {
    internal::v1::CacheKind kind = internal::v1::CACHE_KIND_SEEK;
    std::optional<SegmentFolder::Config> folder;  // absent: the cache is off,
    std::string reason;                           // for this reason
  };

  // `on_news` is called when there is news for workers. Loop and object must live until one of them
  // is gone for good.
  CacheSegments(Config config, std::shared_ptr<EventLoop> loop, std::shared_ptr<IoThread> io,
                std::function<void()> on_news)
      : config_(std::move(config)),
        loop_(std::move(loop)),
        io_(std::move(io)),
        on_news_(std::move(on_news)) {
    Ask();
  }

  // Sends a bound worker the segments that are new to it. With `writes`, a worker without one gets
  // a segment of `domain` to write to, now or with later news. Cheap if there is nothing to tell.
  void Tell(PoolWorker& worker, const std::string& domain, bool writes);
  // Whether a writing worker has its segment, or need not be waited for.
  bool IsSettled(const PoolWorker& worker) const;
  // The worker's segment is full; the next Tell hands it another.
  void OnFull(PoolWorker& worker) { GiveBack(worker); }
  // The worker is gone, or writes no more.
  void OnGone(PoolWorker& worker);
  // The worker's trust domain has changed: the next Tell tells it of the new one's segments.
  void OnDomain(PoolWorker& worker);
  // The worker has loaded code that the domain covers: the next Tell confirms its segment.
  void OnCode(PoolWorker& worker) { Of(worker).was_sent = false; }

  internal::v1::CacheKind kind() const { return config_.kind; }
  void Describe(v1::CacheStatus& status) const;

 private:
  using Segment = std::shared_ptr<const SegmentFolder::Segment>;
  // The I/O thread's answer.
  struct Answer {
    std::vector<Segment> segments;
    std::vector<absl::Status> refused;
    Segment lent;  // null: none was wanted, or `status` says why not
    absl::Status status;
  };

  static Answer Work(const SegmentFolder::Config& config, std::unique_ptr<SegmentFolder>& folder,
                     const std::vector<uint64_t>& given_back,
                     const std::optional<std::string>& wanted);
  // Asks the I/O thread for what is due, unless a request is under way.
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
  // Used by the I/O thread.
  const std::shared_ptr<std::unique_ptr<SegmentFolder>> folder_ =
      std::make_shared<std::unique_ptr<SegmentFolder>>();

  std::vector<Segment> segments_;      // from the last answer
  Segment offered_;                    // not yet handed to a worker
  std::optional<std::string> wanted_;  // domain of a wanted segment
  std::vector<uint64_t> given_back_;
  bool opened_ = false;
  int64_t asked_ns_ = 0;  // start of the request under way; 0: none
  std::string reason_ = config_.reason;
  int64_t no_lending_before_ns_ = 0;
};

}  // namespace bulkhead
