#include "server/supervisor/pool/cache_segments.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace bulkhead {
namespace {

// Wait after a full disk or a full cache.
constexpr absl::Duration kPatience = absl::Seconds(10);
// Workers wait no longer than this for the disk's answer.
constexpr absl::Duration kAnswer = absl::Seconds(1);

}  // namespace

CacheSegments::Answer CacheSegments::Work(const SegmentFolder::Config& config,
                                          std::unique_ptr<SegmentFolder>& folder,
                                          const std::vector<uint64_t>& given_back,
                                          const std::optional<std::string>& wanted) {
  Answer answer;
  if (folder == nullptr) {
    folder = SegmentFolder::Open(config);
    answer.refused = folder->refused();
  }
  for (const uint64_t id : given_back) folder->GiveBack(id);
  if (wanted.has_value()) {
    auto lent = folder->Lend(*wanted);
    answer.status = lent.status();
    if (lent.ok()) answer.lent = *std::move(lent);
  }
  answer.segments.assign(folder->segments().begin(), folder->segments().end());
  return answer;
}

void CacheSegments::Ask() {
  if (!config_.folder.has_value() || asked_ns_ != 0) return;
  if (opened_ && !wanted_.has_value() && given_back_.empty()) return;
  const bool posted = io_->Post([this, loop = loop_, folder = folder_, config = *config_.folder,
                                 given_back = given_back_, wanted = wanted_] {
    Answer answer = Work(config, *folder, given_back, wanted);
    loop->Post([this, answer = std::move(answer)] { OnAnswer(answer); });
  });
  if (!posted) {  // the disk has fallen behind
    no_lending_before_ns_ = MonotonicNanos() + absl::ToInt64Nanoseconds(kPatience);
    return;
  }
  asked_ns_ = MonotonicNanos();
  opened_ = true;
  given_back_.clear();
  wanted_.reset();
}

void CacheSegments::OnAnswer(Answer answer) {
  asked_ns_ = 0;
  for (const absl::Status& refused : answer.refused) {
    spdlog::warn("a file of the cache is not used: {}", std::string(refused.message()));
  }
  segments_.swap(answer.segments);
  if (!answer.status.ok()) NoteFailure(answer.status);
  if (answer.lent != nullptr) reason_.clear();
  offered_ = std::move(answer.lent);
  wanted_.reset();  // workers that still lack a segment ask again now
  on_news_();
  if (offered_ != nullptr) given_back_.push_back(offered_->id);
  offered_.reset();
  Ask();
  // Closing a file may block on its disk.
  io_->Post([gone = std::move(answer.segments)] {});
}

void CacheSegments::NoteFailure(const absl::Status& status) {
  const std::string why(status.message());
  if (why != reason_)
    spdlog::warn("nothing more is kept in the cache `{}`: {}", config_.folder->prefix, why);
  reason_ = why;
  no_lending_before_ns_ = MonotonicNanos() + absl::ToInt64Nanoseconds(kPatience);
}

bool CacheSegments::stalled() const {
  return asked_ns_ != 0 && absl::Nanoseconds(MonotonicNanos() - asked_ns_) > kAnswer;
}

void CacheSegments::Send(PoolWorker& worker, int fd, bool writable) const {
  internal::v1::ToWorker message;
  message.mutable_add_segment()->set_writable(writable);
  message.mutable_add_segment()->set_kind(config_.kind);
  message.mutable_add_segment()->set_code_files(worker.code_files);
  worker.process->Send(message, {fd});
}

void CacheSegments::Tell(PoolWorker& worker, const std::string& domain, bool writes) {
  if (!config_.folder.has_value()) return;
  PoolWorker::Segments& known = Of(worker);
  if (writes && known.written == nullptr) {
    if (offered_ != nullptr && offered_->domain == domain) {
      known.written = std::move(offered_);
      offered_.reset();
      known.was_sent = false;
    } else if (MonotonicNanos() >= no_lending_before_ns_) {
      if (!wanted_.has_value()) wanted_ = domain;
      Ask();
    }
  }
  if (!worker.bound) return;
  if (known.written != nullptr && !known.was_sent) {
    known.was_sent = true;
    Send(worker, known.written->writing.get(), true);
  }
  for (const Segment& segment : segments_) {
    const bool common = segment->domain == SegmentFolder::kBuiltIn;
    uint64_t& told = common ? known.told : known.told_own;
    if (segment->id <= told || (!common && segment->domain != domain)) continue;
    told = segment->id;
    if (segment != known.written) Send(worker, segment->reading.get(), false);
  }
}

bool CacheSegments::IsSettled(const PoolWorker& worker) const {
  return !config_.folder.has_value() || worker.segments[config_.kind].written != nullptr ||
         stalled() || MonotonicNanos() < no_lending_before_ns_;
}

void CacheSegments::OnGone(PoolWorker& worker) {
  std::vector<uint64_t>& former = Of(worker).former;
  given_back_.insert(given_back_.end(), former.begin(), former.end());
  former.clear();
  GiveBack(worker);
}

void CacheSegments::OnDomain(PoolWorker& worker) {
  PoolWorker::Segments& known = Of(worker);
  known.told_own = 0;
  if (known.written == nullptr) return;
  known.former.push_back(known.written->id);
  known.written.reset();
}

void CacheSegments::GiveBack(PoolWorker& worker) {
  PoolWorker::Segments& known = Of(worker);
  if (known.written == nullptr) return;
  given_back_.push_back(known.written->id);
  known.written.reset();
  Ask();
}

void CacheSegments::Describe(v1::CacheStatus& status) const {
  status.set_reason(reason_);
  if (stalled()) {
    status.set_reason(absl::StrCat("the cache folder ", config_.folder->folder,
                                   " has not answered for ",
                                   (MonotonicNanos() - asked_ns_) / 1'000'000'000, " s"));
  }
  if (!config_.folder.has_value()) return;
  status.set_most_bytes(config_.folder->most_bytes);
  status.set_segments(segments_.size());
  uint64_t bytes = 0;
  for (const Segment& segment : segments_) bytes += segment->bytes;
  status.set_bytes(bytes);
}

}  // namespace bulkhead
