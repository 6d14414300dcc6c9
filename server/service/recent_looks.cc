#include "server/service/recent_looks.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/base/byte_size.h"

namespace bulkhead {
namespace {

// Of looks that follow each other faster the last is remembered, so that a minute of them is
// little.
constexpr absl::Duration kPause = absl::Milliseconds(500);
// A service that uses more than this share of the CPUs uses them all.
constexpr double kAllUsed = 0.9;

std::string Percent(double share) {
  return absl::StrFormat("%.0f %%", std::clamp(share, 0.0, 1.0) * 100);
}

// "the last 10 s".
std::string Last(double seconds) {
  return absl::StrCat("the last ", std::llround(std::max(1.0, seconds)), " s");
}

struct Busiest {
  std::string stage;  // empty: none ran
  double share = 0;   // of the time of all stages
};

Busiest BusiestOf(const std::map<std::string, double>& before,
                  const std::map<std::string, double>& now) {
  Busiest busiest;
  double most = 0;
  double all = 0;
  for (const auto& [stage, seconds] : now) {
    const auto known = before.find(stage);
    const double busy = std::max(0.0, seconds - (known == before.end() ? 0 : known->second));
    all += busy;
    if (busy <= most) continue;
    most = busy;
    busiest.stage = stage;
  }
  if (all > 0) busiest.share = most / all;
  return busiest;
}

// Whether a worker of the pipeline serves leases.
bool IsServed(const v1::GetStatusResponse& status, const std::string& pipeline) {
  return std::any_of(status.workers().begin(), status.workers().end(), [&](const auto& worker) {
    return worker.pipeline() == pipeline &&
           (worker.state() == v1::WORKER_STATE_READY || worker.state() == v1::WORKER_STATE_BUSY);
  });
}

// How many more workers of the pipeline the memory budget holds, of at most `most` that the CPUs
// keep busy; "" if they have no quota.
std::string MoreWorkers(const v1::GetStatusResponse& status, const std::string& pipeline,
                        uint64_t most) {
  const auto worker = std::find_if(status.workers().begin(), status.workers().end(),
                                   [&](const auto& known) { return known.pipeline() == pipeline; });
  if (worker == status.workers().end() || worker->quota_bytes() == 0) return "";
  const v1::MemoryBudget& memory = status.memory();
  const uint64_t taken = memory.supervisor_bytes() + memory.arena_bytes() + memory.quota_bytes() +
                         memory.replacement_bytes();
  const uint64_t left = memory.budget_bytes() > taken ? memory.budget_bytes() - taken : 0;
  const uint64_t fitting = left / worker->quota_bytes();
  if (fitting == 0) return "; no further worker fits the memory budget";
  const uint64_t more = std::min(fitting, most);
  return absl::StrCat("; ", more, more == 1 ? " more worker fits" : " more workers fit",
                      fitting > most ? " the CPUs and the memory budget" : " the memory budget");
}

}  // namespace

RecentLooks::StreamKey RecentLooks::KeyOf(const v1::StreamStatus& stream) {
  return {{stream.name(), stream.rank()}, stream.opened().seconds()};
}

RecentLooks::Look RecentLooks::LookAt(int64_t now_ns, const v1::GetStatusResponse& status) {
  Look look;
  look.time_ns = now_ns;
  look.cpu_seconds = status.cpu_seconds();
  for (const v1::StreamStatus& stream : status.streams()) {
    look.waits[KeyOf(stream)] = {stream.waiting_for_workers_seconds(),
                                 stream.waiting_for_objects_seconds()};
  }
  look.objects = status.object_reads();
  for (const v1::PlaceTotals& place : status.places()) {
    auto& stages = look.stages[place.pipeline()];
    for (const v1::StageUsage& usage : place.stages()) {
      stages[usage.stage()] += usage.busy_seconds();
    }
  }
  return look;
}

const RecentLooks::Look* RecentLooks::EarlierThan(int64_t now_ns) const {
  const auto age = [&](const Look& look) { return absl::Nanoseconds(now_ns - look.time_ns); };
  const auto newest = std::find_if(looks_.rbegin(), looks_.rend(),
                                   [&](const Look& look) { return age(look) >= kLeast; });
  return newest == looks_.rend() || age(*newest) > kMost ? nullptr : &*newest;
}

void RecentLooks::Remember(Look look) {
  while (!looks_.empty() && absl::Nanoseconds(look.time_ns - looks_.front().time_ns) > kMost) {
    looks_.pop_front();
  }
  const size_t count = looks_.size();
  if (count >= 2 &&
      absl::Nanoseconds(looks_[count - 1].time_ns - looks_[count - 2].time_ns) < kPause) {
    looks_.pop_back();
  }
  looks_.push_back(std::move(look));
}

std::string RecentLooks::Cause(const Look& before, const Look& now, const std::string& pipeline,
                               const v1::GetStatusResponse& status, double waited) const {
  if (!IsServed(status, pipeline)) {
    return "no worker serves: they start, or wait for a restart after a death";
  }
  const auto stages_at = [&](const Look& look) {
    const auto found = look.stages.find(pipeline);
    return found == look.stages.end() ? std::map<std::string, double>() : found->second;
  };
  const Busiest busiest = BusiestOf(stages_at(before), stages_at(now));
  const std::string cause =
      busiest.stage.empty()
          ? "the workers are busy with nothing that is counted"
          : absl::StrCat(busiest.stage, " takes ", Percent(busiest.share), " of their time");
  const double seconds = static_cast<double>(now.time_ns - before.time_ns) / 1e9;
  const double used = (now.cpu_seconds - before.cpu_seconds) / seconds;
  if (used >= kAllUsed * cpus_) {
    return absl::StrCat(cause, "; the service uses all ", cpus_, cpus_ == 1 ? " CPU" : " CPUs");
  }
  if (waited < kLackingShare) return cause;
  return cause + MoreWorkers(status, pipeline, static_cast<uint64_t>(std::ceil(cpus_ - used)));
}

std::string RecentLooks::Speed(const Look& before, const Look& now) {
  const auto added = [](uint64_t then, uint64_t count) { return count < then ? 0 : count - then; };
  const double seconds = static_cast<double>(now.time_ns - before.time_ns) / 1e9;
  const uint64_t bytes = added(before.objects.bytes_fetched(), now.objects.bytes_fetched());
  const uint64_t retries = added(before.objects.retries(), now.objects.retries());
  return absl::StrCat(FormatBytes(static_cast<uint64_t>(static_cast<double>(bytes) / seconds)),
                      "/s came, by ", added(before.objects.requests(), now.objects.requests()),
                      " requests", retries == 0 ? "" : absl::StrCat(", ", retries, " repeated"));
}

std::string RecentLooks::Why(const Look& before, const Look& now, const v1::StreamStatus& stream,
                             const v1::GetStatusResponse& status) const {
  const auto then = before.waits.find(KeyOf(stream));
  if (then == before.waits.end()) return "";
  const double seconds = static_cast<double>(now.time_ns - before.time_ns) / 1e9;
  const double share = (stream.waiting_for_workers_seconds() - then->second.seconds) / seconds;
  if (share < kLeastShare) {
    return absl::StrCat("waits for the trainer ", Percent(1 - share), " of ", Last(seconds),
                        ": the workers keep up");
  }
  const double objects = (stream.waiting_for_objects_seconds() - then->second.objects) / seconds;
  if (objects > share / 2) {
    return absl::StrCat("waits for the object store ", Percent(objects), " of ", Last(seconds),
                        ": ", Speed(before, now));
  }
  return absl::StrCat("waits for workers ", Percent(share), " of ", Last(seconds), ": ",
                      Cause(before, now, stream.pipeline(), status, share));
}

void RecentLooks::Explain(int64_t now_ns, v1::GetStatusResponse& status) {
  if (status.supervisor_silent_seconds() > 0) return;  // it says nothing else
  absl::MutexLock lock(&mutex_);
  Look now = LookAt(now_ns, status);
  if (const Look* const before = EarlierThan(now_ns); before != nullptr) {
    for (v1::StreamStatus& stream : *status.mutable_streams()) {
      stream.set_why(Why(*before, now, stream, status));
    }
  }
  Remember(std::move(now));
}

}  // namespace bulkhead
