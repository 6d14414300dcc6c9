#include "server/supervisor/leases/stream_inputs.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/base/error.h"

namespace bulkhead {
namespace {

// A sample may take that many records one after another: substitutes, and partners with theirs.
// Each may be missing, and then be wrong.
constexpr uint64_t kMissingOfSample = 40;
constexpr uint64_t kMostMissing = 100;

uint64_t BytesOf(const InputFetcher::Parts& parts) {
  uint64_t bytes = 0;
  for (const internal::v1::ObjectParts& object : parts) {
    bytes += object.bytes();
    if (object.bytes() > 0) continue;
    for (int i = 0; i + 1 < object.bounds_size(); i += 2) {
      bytes += object.bounds(i + 1) - std::min(object.bounds(i), object.bounds(i + 1));
    }
  }
  return bytes;
}

}  // namespace

StreamInputs::~StreamInputs() {
  *alive_ = false;
  for (const auto& [sequence, batch] : in_work_) ahead_.push_back(batch);
  for (const auto& batch : ahead_) {
    for (const uint64_t request : batch->requests) fetcher_.release(request);
  }
}

bool StreamInputs::HasRoom() const {
  if (ahead_.size() >= kMostAheadBatches) return false;
  uint64_t bytes = 0;
  for (const auto& batch : ahead_) {
    // Nothing is known of its size yet.
    if (!batch->surveyed && bytes > 0) return false;
    bytes += batch->bytes;
  }
  return bytes < kMostAheadBytes;
}

void StreamInputs::Add(const v1::BatchHeader& header) {
  auto batch = std::make_shared<Batch>();
  batch->header = header;
  ahead_.push_back(std::move(batch));
}

std::optional<v1::BatchHeader> StreamInputs::Take() {
  if (ahead_.empty() || !ahead_.front()->surveyed || ahead_.front()->fetching > 0) {
    return std::nullopt;
  }
  const std::shared_ptr<Batch> batch = std::move(ahead_.front());
  ahead_.pop_front();
  in_work_[batch->header.sequence()] = batch;
  SetIdle(false);
  return batch->header;
}

void StreamInputs::OnDelivered(uint64_t sequence) {
  const auto found = in_work_.find(sequence);
  if (found == in_work_.end()) return;
  for (const uint64_t request : found->second->requests) fetcher_.release(request);
  in_work_.erase(found);
}

bool StreamInputs::HasSurvey(int64_t now_ns) const {
  return std::ranges::any_of(ahead_, [&](const auto& batch) { return IsUnasked(*batch, now_ns); });
}

std::optional<internal::v1::Survey> StreamInputs::NextSurvey(uint64_t worker, int64_t now_ns) {
  for (const auto& batch : ahead_) {
    if (!IsUnasked(*batch, now_ns) || batch->asked_worker == worker) continue;
    batch->asked_worker = worker;
    batch->asked_ns = now_ns;
    internal::v1::Survey survey;
    survey.set_sequence(batch->header.sequence());
    survey.set_epoch(batch->header.epoch());
    survey.set_first_position(batch->header.first_position());
    survey.set_count(static_cast<uint32_t>(batch->header.sample_count()));
    return survey;
  }
  return std::nullopt;
}

bool StreamInputs::IsSilent(uint64_t worker, int64_t now_ns) const {
  return std::ranges::any_of(ahead_, [&](const auto& batch) {
    return !batch->surveyed && batch->asked_worker == worker &&
           now_ns - batch->asked_ns > kSilenceNs;
  });
}

void StreamInputs::OnSurveyed(const internal::v1::Surveyed& surveyed) {
  const auto found = std::ranges::find_if(
      ahead_, [&](const auto& batch) { return batch->header.sequence() == surveyed.sequence(); });
  if (found == ahead_.end() || (*found)->surveyed) return;  // another worker was faster
  (*found)->surveyed = true;
  (*found)->bytes = BytesOf(surveyed.objects());
  (*found)->fetched_again = FetchedAgain(surveyed.objects());
  Fetch(*found, surveyed.objects(), internal::v1::FetchParts::TRUST_UNSPECIFIED, [] {});
  loop_->Post([this, alive = alive_] {
    if (*alive) on_news_();
  });
}

void StreamInputs::OnWorkerGone(uint64_t worker) {
  for (const auto& batch : ahead_) {
    if (batch->asked_worker == worker) batch->asked_worker = 0;
  }
}

bool StreamInputs::FetchMissing(const std::optional<internal::v1::Lease>& lease,
                                const internal::v1::WorkerError& error) {
  const auto fact = [&](const char* name) {
    const auto found = error.metadata().find(name);
    return found == error.metadata().end() ? std::string() : found->second;
  };
  uint64_t begin = 0;
  uint64_t end = 0;
  if (error.reason() != reason::kNotFetched || !lease.has_value() ||
      !absl::SimpleAtoi(fact("begin"), &begin) || !absl::SimpleAtoi(fact("end"), &end)) {
    return false;
  }
  const std::shared_ptr<Batch> batch = BatchOf(*lease);
  if (batch == nullptr) return false;
  if (++batch->missing > kMostMissing + kMissingOfSample * batch->header.sample_count()) {
    loop_->Post([this, alive = alive_, message = error.message()] {
      if (!*alive) return;
      on_error_(MakeError(absl::StatusCode::kUnavailable, reason::kFileUnreadable,
                          absl::StrCat(message,
                                       ", although they are fetched again and again; look "
                                       "at the disk of the cache folder")));
    });
    return true;
  }
  InputFetcher::Parts parts;
  internal::v1::ObjectParts& part = *parts.Add();
  part.set_key(fact("key"));
  part.add_bounds(begin);
  part.add_bounds(end);
  InputFetcher::Trust trust = internal::v1::FetchParts::TRUST_CHECKSUMS;
  if (!fact("wrong").empty()) {
    *batch->fetched_again.Add() = part;
    const bool is_new = fetched_again_count_ < kMostFetchedAgain &&
                        fetched_again_[part.key()].emplace(begin, end).second;
    if (!is_new) return true;
    ++fetched_again_count_;
    trust = internal::v1::FetchParts::TRUST_NOTHING;
  }
  ++missing_;
  Fetch(batch, parts, trust, [this] { --missing_; });
  return true;
}

std::shared_ptr<StreamInputs::Batch> StreamInputs::BatchOf(const internal::v1::Lease& lease) const {
  const auto found = std::ranges::find_if(in_work_, [&](const auto& entry) {
    const v1::BatchHeader& header = entry.second->header;
    return header.epoch() == lease.epoch() && header.first_position() == lease.first_position();
  });
  return found == in_work_.end() ? nullptr : found->second;
}

InputFetcher::Parts StreamInputs::FetchedAgain(const InputFetcher::Parts& surveyed) const {
  InputFetcher::Parts again;
  for (const internal::v1::ObjectParts& object : surveyed) {
    const auto known = fetched_again_.find(object.key());
    if (known == fetched_again_.end()) continue;
    internal::v1::ObjectParts& part = *again.Add();
    part.set_key(object.key());
    for (int i = 0; i + 1 < object.bounds_size(); i += 2) {
      for (auto it = known->second.lower_bound(object.bounds(i));
           it != known->second.end() && it->first < object.bounds(i + 1); ++it) {
        part.add_bounds(it->first);
        part.add_bounds(it->second);
      }
    }
  }
  return again;
}

void StreamInputs::Fetch(const std::shared_ptr<Batch>& batch, const InputFetcher::Parts& parts,
                         InputFetcher::Trust trust, std::function<void()> done) {
  ++batch->fetching;
  TellMeter();
  auto answer = [this, loop = loop_, batch, done = std::move(done),
                 alive = alive_](const absl::Status& status) {
    loop->Post([this, batch, done, alive, status] {
      if (!*alive) return;
      --batch->fetching;
      done();
      TellMeter();
      status.ok() ? on_news_() : on_error_(status);
    });
  };
  batch->requests.push_back(fetcher_.fetch(parts, trust, std::move(answer)));
}

}  // namespace bulkhead
