#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "bulkhead/internal/v1/fetch.pb.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "bulkhead/v1/loader.pb.h"
#include "server/os/event_loop.h"
#include "server/supervisor/leases/stream_meter.h"

namespace bulkhead {

// Who brings parts of objects to this host (server/data/object_fetcher.h). Thread-safe; `done` is
// called on any thread.
struct InputFetcher {
  using Parts = google::protobuf::RepeatedPtrField<internal::v1::ObjectParts>;
  using Done = std::function<void(const absl::Status&)>;
  using Trust = internal::v1::FetchParts::Trust;
  // Keeps the parts on this host from `done` on, until `release` of the number returned. Unknown
  // objects are left out.
  std::function<uint64_t(const Parts& parts, Trust trust, Done done)> fetch;
  std::function<void(uint64_t id)> release;
};

// The batches of one stream that are to be begun, until their bytes are on this host: no worker
// waits for a network.
//
//   Add ─▶ NextSurvey ─▶ worker ─▶ OnSurveyed ─▶ fetch ─▶ ready ─▶ Take ─▶ in work ─▶ OnDelivered
//
// Batches are fetched ahead of those in work, as far as kMostAheadBytes allows, and taken in order.
// A sample that takes another record than planned (a substitute) reads what was not fetched; its
// lease comes back, and FetchMissing fetches that too. A record whose checksum is wrong may have
// arrived so: it is read from its store once more before it is the sample's error. Lives on the
// supervisor's thread.
class StreamInputs {
 public:
  // Of batches that are fetched but not in work; one may be larger.
  static constexpr uint64_t kMostAheadBytes = uint64_t{256} << 20;
  static constexpr size_t kMostAheadBatches = 64;
  // When a worker has not answered for so long, another is asked as well; when it is silent for
  // longer, it hangs.
  static constexpr int64_t kPatienceNs = int64_t{2} * 1'000'000'000;
  static constexpr int64_t kSilenceNs = int64_t{30} * 1'000'000'000;
  // Records that are read once more; of a stream with more, all others are taken as they came.
  static constexpr size_t kMostFetchedAgain = 32'768;

  // `on_news` is called when a batch's bytes are known, or it is ready, or a missing part is here;
  // `on_error` when the fetch of one failed. Both later, on the loop's thread.
  // `meter`, told when these bytes are all that is waited for, may be null.
  StreamInputs(InputFetcher fetcher, std::shared_ptr<EventLoop> loop,
               std::shared_ptr<StreamMeter> meter, std::function<void()> on_news,
               std::function<void(const absl::Status&)> on_error)
      : fetcher_(std::move(fetcher)),
        loop_(std::move(loop)),
        meter_(std::move(meter)),
        on_news_(std::move(on_news)),
        on_error_(std::move(on_error)) {}
  // Releases all.
  ~StreamInputs();
  StreamInputs(const StreamInputs&) = delete;
  StreamInputs& operator=(const StreamInputs&) = delete;

  // Whether another batch may be added, and the last one that was.
  bool HasRoom() const;
  void Add(const v1::BatchHeader& header);
  bool empty() const { return ahead_.empty(); }
  // The sequence of the first batch that was not taken.
  std::optional<uint64_t> first() const {
    if (ahead_.empty()) return std::nullopt;
    return ahead_.front()->header.sequence();
  }

  // Takes the first batch, if its bytes are here and no lease waits for others.
  std::optional<v1::BatchHeader> Take();
  // The batch was delivered, and will not be done again.
  void OnDelivered(uint64_t sequence);

  // Whether a worker is to be asked; and what.
  bool HasSurvey(int64_t now_ns) const;
  std::optional<internal::v1::Survey> NextSurvey(uint64_t worker, int64_t now_ns);
  // Whether the worker has left a question open for kSilenceNs.
  bool IsSilent(uint64_t worker, int64_t now_ns) const;
  void OnSurveyed(const internal::v1::Surveyed& surveyed);
  void OnWorkerGone(uint64_t worker);

  // If `error` says that the lease read bytes which are not here (NOT_FETCHED): fetches them and
  // returns true. If that happens to a batch more often than its samples explain, `on_error` gets
  // FILE_UNREADABLE: what is fetched cannot be read.
  bool FetchMissing(const std::optional<internal::v1::Lease>& lease,
                    const internal::v1::WorkerError& error);
  // Fills in Lease.fetched_again.
  void AddFetchedAgain(internal::v1::Lease& lease) const {
    const std::shared_ptr<Batch> batch = BatchOf(lease);
    if (batch != nullptr) *lease.mutable_fetched_again() = batch->fetched_again;
  }
  // Whether leases wait for such bytes.
  bool waits() const { return missing_ > 0; }
  // `idle`: the stream could begin a batch, and has none in work.
  void SetIdle(bool idle) {
    idle_ = idle;
    TellMeter();
  }
  // Whether the stream goes on only when bytes are here.
  bool is_awaited() const {
    const bool next = !ahead_.empty() && ahead_.front()->surveyed && ahead_.front()->fetching > 0;
    return waits() || (idle_ && next);
  }

 private:
  struct Batch {
    v1::BatchHeader header;
    uint64_t asked_worker = 0;  // 0: none
    int64_t asked_ns = 0;
    bool surveyed = false;
    size_t fetching = 0;             // requests without an answer
    std::vector<uint64_t> requests;  // to be released
    uint64_t bytes = 0;
    uint64_t missing = 0;  // calls of FetchMissing
    InputFetcher::Parts fetched_again;
  };

  void TellMeter() const {
    if (meter_ != nullptr) meter_->SetFetching(is_awaited(), MonotonicNanos());
  }
  void Fetch(const std::shared_ptr<Batch>& batch, const InputFetcher::Parts& parts,
             InputFetcher::Trust trust, std::function<void()> done);
  // Those of the surveyed parts that were fetched again for earlier batches.
  InputFetcher::Parts FetchedAgain(const InputFetcher::Parts& surveyed) const;
  // The batch in work that the lease is a part of; null: none.
  std::shared_ptr<Batch> BatchOf(const internal::v1::Lease& lease) const;
  static bool IsUnasked(const Batch& batch, int64_t now_ns) {
    return !batch.surveyed && (batch.asked_worker == 0 || now_ns - batch.asked_ns > kPatienceNs);
  }

  const InputFetcher fetcher_;
  const std::shared_ptr<EventLoop> loop_;
  const std::shared_ptr<StreamMeter> meter_;
  const std::function<void()> on_news_;
  const std::function<void(const absl::Status&)> on_error_;
  std::deque<std::shared_ptr<Batch>> ahead_;
  std::map<uint64_t, std::shared_ptr<Batch>> in_work_;  // by sequence
  size_t missing_ = 0;
  bool idle_ = true;
  // By object, the bounds that were fetched again.
  std::map<std::string, std::map<uint64_t, uint64_t>> fetched_again_;
  size_t fetched_again_count_ = 0;
  // Against answers after the end of this.
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace bulkhead
