#include "tools/status/status_rates.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "absl/time/clock.h"
#include "server/base/error.h"
#include "tools/common/clock.h"
#include "tools/common/status_message.h"

namespace bulkhead::tools {
namespace {

constexpr absl::Duration kDeadline = absl::Seconds(30);

// What was added to a counter, which starts again from 0 with its owner.
double Added(double before, double now) { return now < before ? now : now - before; }

const v1::StreamStatus* Find(const v1::GetStatusResponse& status, const v1::StreamStatus& stream) {
  for (const v1::StreamStatus& known : status.streams()) {
    if (known.name() == stream.name() && known.rank() == stream.rank() &&
        known.opened().seconds() == stream.opened().seconds()) {
      return &known;
    }
  }
  return nullptr;
}

StatusRates::Stream StreamRates(const v1::GetStatusResponse& before, const v1::StreamStatus& now,
                                double seconds) {
  const v1::StreamStatus* const known = Find(before, now);
  const v1::StreamStatus& then = known == nullptr ? v1::StreamStatus::default_instance() : *known;
  const auto rate = [&](auto count) {
    return Added(static_cast<double>(count(then)), static_cast<double>(count(now))) / seconds;
  };
  StatusRates::Stream rates;
  rates.samples = rate([](const auto& stream) { return stream.samples_sent(); });
  rates.batches = rate([](const auto& stream) { return stream.batches_sent(); });
  rates.waits_for_workers =
      std::min(1.0, rate([](const auto& stream) { return stream.waiting_for_workers_seconds(); }));
  return rates;
}

struct Work {
  double samples = 0;
  std::map<std::string, std::pair<double, double>> stages;  // busy seconds and runs
};

// By pipeline.
std::map<std::string, Work> WorkOf(const v1::GetStatusResponse& status) {
  std::map<std::string, Work> works;
  for (const v1::PlaceTotals& place : status.places()) {
    Work& work = works[place.pipeline()];
    work.samples += static_cast<double>(place.samples());
    for (const v1::StageUsage& usage : place.stages()) {
      auto& [busy, runs] = work.stages[usage.stage()];
      busy += usage.busy_seconds();
      runs += static_cast<double>(usage.runs());
    }
  }
  return works;
}

StatusRates::Pipeline PipelineRates(const Work& before, const Work& now, double seconds) {
  StatusRates::Pipeline rates;
  rates.samples = Added(before.samples, now.samples) / seconds;
  double all = 0;
  for (const auto& [stage, work] : now.stages) {
    const auto known = before.stages.find(stage);
    const auto then = known == before.stages.end() ? std::pair(0.0, 0.0) : known->second;
    const double busy = Added(then.first, work.first);
    const double runs = Added(then.second, work.second);
    if (runs == 0) continue;
    rates.stages.push_back({stage, busy / runs, busy});
    all += busy;
  }
  for (StatusRates::Stage& stage : rates.stages) stage.share = all > 0 ? stage.share / all : 0;
  std::ranges::stable_sort(rates.stages, std::greater(), &StatusRates::Stage::share);
  return rates;
}

}  // namespace

StatusRates RatesBetween(const v1::GetStatusResponse& before, const v1::GetStatusResponse& now,
                         double seconds) {
  const bool same = before.boot_id() == now.boot_id();
  const v1::GetStatusResponse& then = same ? before : v1::GetStatusResponse::default_instance();
  StatusRates rates;
  rates.seconds = seconds;
  rates.samples = Added(static_cast<double>(then.samples_delivered()),
                        static_cast<double>(now.samples_delivered())) /
                  seconds;
  rates.cpus = Added(then.cpu_seconds(), now.cpu_seconds()) / seconds;
  for (const v1::StreamStatus& stream : now.streams()) {
    rates.streams.push_back(StreamRates(then, stream, seconds));
  }
  const auto earlier = WorkOf(then);
  for (const auto& [name, work] : WorkOf(now)) {
    const auto known = earlier.find(name);
    rates.pipelines.push_back(
        PipelineRates(known == earlier.end() ? Work() : known->second, work, seconds));
    rates.pipelines.back().name = name;
  }
  return rates;
}

absl::Status StatusLooks::Look() {
  BULKHEAD_ASSIGN_OR_RETURN(v1::GetStatusResponse now,
                            GetStatusMessage(target_, kDeadline, /*fresh_memory=*/true));
  const absl::Time time = SteadyNow();
  if (time_ != absl::InfinitePast()) {
    rates_ = RatesBetween(status_, now, absl::ToDoubleSeconds(time - time_));
  }
  status_ = std::move(now);
  time_ = time;
  return absl::OkStatus();
}

absl::Status StatusLooks::LookTwice() {
  BULKHEAD_RETURN_IF_ERROR(Look());
  if (status_.streams().empty()) return absl::OkStatus();
  absl::SleepFor(kPause);
  return Look();
}

}  // namespace bulkhead::tools
