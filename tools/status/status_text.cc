#include "tools/status/status_text.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "server/base/byte_size.h"

namespace bulkhead::tools {
namespace {

// Of the history only what fits on a screen.
constexpr int kShown = 8;

// EXIT_CAUSE_OUT_OF_MEMORY → "out of memory".
std::string Words(const std::string& name, absl::string_view prefix) {
  return absl::StrReplaceAll(absl::AsciiStrToLower(absl::StripPrefix(name, prefix)), {{"_", " "}});
}

std::string Clock(const google::protobuf::Timestamp& time) {
  return absl::FormatTime("%H:%M:%S", absl::FromUnixSeconds(time.seconds()), absl::LocalTimeZone());
}

// "stages[1] resize 412MiB": what holds most.
std::string Largest(const google::protobuf::RepeatedPtrField<v1::StageUsage>& stages) {
  if (stages.empty() || stages[0].live_bytes() == 0) return "";
  return absl::StrCat(stages[0].stage(), " ", FormatBytes(stages[0].live_bytes()));
}

std::string Containment(const v1::Containment& containment) {
  std::string text = absl::StrCat("quota: ", containment.quota_level());
  if (!containment.quota_level_reason().empty()) {
    absl::StrAppend(&text, " (", containment.quota_level_reason(), ")");
  }
  std::vector<std::string> parts;
  for (const v1::SandboxPart& part : containment.sandbox()) {
    parts.push_back(part.active() ? part.name()
                                  : absl::StrCat("no ", part.name(), " (", part.reason(), ")"));
  }
  if (!parts.empty()) absl::StrAppend(&text, "\nsandbox: ", absl::StrJoin(parts, ", "));
  return text + "\n";
}

std::string Worker(const v1::WorkerStatus& worker) {
  std::string state = Words(v1::WorkerState_Name(worker.state()), "WORKER_STATE_");
  if (worker.draining()) state = "draining";
  if (worker.standby()) state = "warming up";
  return absl::StrFormat("%-20.20s %4d %4d %-10s %9s %9s %9s %9d  %s\n",
                         worker.role() == "index" ? "(index)" : worker.pipeline(), worker.slot(),
                         worker.generation(), state, FormatBytes(worker.usage().memory_bytes()),
                         FormatBytes(worker.usage().peak_memory_bytes()),
                         FormatBytes(worker.quota_bytes()), worker.samples(),
                         Largest(worker.stages()));
}

std::string Tuning(const v1::WorkerTuning& tuning) {
  return absl::StrFormat("workers of %s: tuned to %d (%d at first, at most %d); %s\n",
                         tuning.pipeline(), tuning.workers(), tuning.first_workers(),
                         tuning.most_workers(), tuning.text());
}

// The newest `kShown` entries, the newest first.
template <typename Entries, typename Describe>
std::string Newest(const std::string& title, const Entries& entries, const Describe& describe) {
  if (entries.empty()) return "";
  std::string text = title;
  for (int i = entries.size() - 1; i >= std::max(0, entries.size() - kShown); --i) {
    absl::StrAppend(&text, describe(entries[i]));
  }
  return text;
}

std::string Rates(const StatusRates& rates) {
  std::string text = absl::StrFormat("in the last %.3g s: %.4g samples/s delivered, by %.2g CPUs\n",
                                     rates.seconds, rates.samples, rates.cpus);
  for (const StatusRates::Pipeline& pipeline : rates.pipelines) {
    const std::string times = StageTimesText(pipeline);
    if (times.empty()) continue;
    absl::StrAppend(&text, "  a run in pipeline ", pipeline.name, " takes: ", times, "\n");
  }
  return text;
}

// What was read from object stores.
std::string Objects(const v1::ObjectReads& reads) {
  std::string text = absl::StrFormat("objects: %s fetched by %d requests",
                                     FormatBytes(reads.bytes_fetched()), reads.requests());
  if (reads.retries() + reads.hedges() > 0) {
    absl::StrAppendFormat(&text, " (%d after failures, %d beside slow ones)", reads.retries(),
                          reads.hedges());
  }
  absl::StrAppend(&text, "; block cache ", FormatBytes(reads.cached_bytes()), " of ",
                  FormatBytes(reads.most_cached_bytes()));
  if (reads.spare_bytes() > 0) {
    absl::StrAppend(&text, ", ", FormatBytes(reads.spare_bytes()), " beside it");
  }
  if (reads.restarts() > 0) absl::StrAppend(&text, "; restarted ", reads.restarts(), " times");
  return text + "\n";
}

// Nothing while no JPEG file was decoded.
std::string Jpeg(const v1::JpegDecodes& jpeg, const v1::CacheStatus& cache,
                 const v1::CacheStatus& coefficients) {
  uint64_t own = 0;
  uint64_t others = 0;
  for (const v1::JpegDecodes::Files& files : jpeg.files()) {
    (files.decoder() == v1::JPEG_DECODER_OWN ? own : others) += files.count();
  }
  if (own + others == 0) return "";
  std::string text = absl::StrFormat("JPEG: %d files, %d by libjpeg-turbo", own + others, others);
  if (jpeg.mcus() > 0) {
    absl::StrAppendFormat(&text, "; of the others %.0f%% of the MCUs were read",
                          1e2 * static_cast<double>(jpeg.mcus_read()) / jpeg.mcus());
  }
  if (jpeg.crops() > 0) {
    absl::StrAppendFormat(&text, "; %.0f%% of the crops by seek entries (%s of %s)",
                          1e2 * static_cast<double>(jpeg.entries_found()) / jpeg.crops(),
                          FormatBytes(cache.bytes()), FormatBytes(cache.most_bytes()));
  }
  if (!cache.reason().empty()) absl::StrAppend(&text, "; none are added: ", cache.reason());
  text += "\n";
  const uint64_t kept = jpeg.coefficients_found() + jpeg.coefficients_made();
  if (kept == 0) {
    return coefficients.reason().empty()
               ? text
               : absl::StrCat(text, "      no coefficients are kept: ", coefficients.reason(),
                              "\n");
  }
  absl::StrAppendFormat(
      &text,
      "      %.0f%% by coefficients, %.0f%% without reading the file; coefficients of %d files "
      "were "
      "made since the start; on disk: %s of %s%s\n",
      1e2 * static_cast<double>(jpeg.coefficients_found()) / (own + others),
      1e2 * static_cast<double>(jpeg.files_unread()) / (own + others), jpeg.coefficients_made(),
      FormatBytes(coefficients.bytes()), FormatBytes(coefficients.most_bytes()),
      coefficients.reason().empty() ? ""
                                    : absl::StrCat("; none are added: ", coefficients.reason()));
  return text;
}

// Nothing while no cache stage was met.
std::string Kept(const v1::KeptCounts& kept, const v1::CacheStatus& cache) {
  const uint64_t all = kept.found() + kept.added();
  if (all == 0 && (cache.segments() == 0 || cache.reason().empty())) return "";
  return absl::StrFormat("cache stages: %d samples found, %d added (%s of %s)%s\n", kept.found(),
                         kept.added(), FormatBytes(cache.bytes()), FormatBytes(cache.most_bytes()),
                         cache.reason().empty() ? "" : "; none are added: " + cache.reason());
}

}  // namespace

std::string ExitText(const v1::WorkerExit& exit) {
  std::string text = absl::StrFormat("  %s  %s/%d  %s", Clock(exit.time()), exit.pipeline(),
                                     exit.slot(), exit.reason());
  for (const v1::ThreadActivity& at : exit.activity()) {
    absl::StrAppend(&text, "\n            at ", at.stage(), " of ", at.sample());
  }
  if (!exit.refused_stage().empty()) {
    absl::StrAppend(&text, "\n            ", exit.refused_stage(), " was refused ",
                    FormatBytes(exit.refused_bytes()), " of a quota of ",
                    FormatBytes(exit.quota_bytes()));
  }
  const std::string largest = Largest(exit.stages());
  if (!largest.empty()) absl::StrAppend(&text, "\n            held most: ", largest);
  return text + "\n";
}

std::string VerdictText(const v1::Verdict& verdict) {
  return absl::StrCat("verdict on ", verdict.pipeline(), ": ",
                      Words(v1::VerdictKind_Name(verdict.kind()), "VERDICT_KIND_"), "; ",
                      verdict.text(), "\n");
}

std::string StageTimesText(const StatusRates::Pipeline& pipeline) {
  std::vector<std::string> stages;
  for (const StatusRates::Stage& stage : pipeline.stages) {
    stages.push_back(absl::StrFormat("%s %.3g ms (%.0f %%)", stage.stage, stage.seconds_a_run * 1e3,
                                     stage.share * 1e2));
  }
  return absl::StrJoin(stages, ", ");
}

namespace {

std::string ShareText(const v1::ShareStatus& share) {
  std::string text;
  if (share.members() > 0) {
    absl::StrAppendFormat(&text,
                          "  shares with %d of the %d others of its group, %d batches so far, %d "
                          "made alone; fell out "
                          "%d times; %s kept\n",
                          share.near(), share.members() - 1, share.batches_shared(),
                          share.batches_alone(), share.times_fallen_out(),
                          FormatBytes(share.window_bytes()));
  }
  if (!share.reason().empty()) absl::StrAppend(&text, "  shares nothing: ", share.reason(), "\n");
  return text;
}

}  // namespace

std::string StreamText(const v1::StreamStatus& stream, const StatusRates::Stream* rates) {
  std::string text = absl::StrFormat("stream %s, rank %d of %d%s", stream.name(), stream.rank(),
                                     stream.world_size(), stream.idle() ? ", idle" : "");
  if (!stream.why().empty()) absl::StrAppend(&text, ": ", stream.why());
  absl::StrAppend(&text, "\n  ");
  if (rates != nullptr) {
    absl::StrAppendFormat(&text, "%.4g samples/s, %.3g batches/s; ", rates->samples,
                          rates->batches);
  }
  absl::StrAppendFormat(
      &text, "epoch %d, %d batches sent; %spipeline %s, by %s to %s", stream.epoch(),
      stream.batches_sent(),
      stream.spec().empty() ? "" : absl::StrCat("spec ", stream.spec(), ", "), stream.pipeline(),
      stream.transport() == v1::TRANSPORT_SHM ? "shared memory" : "gRPC",
      stream.peer_pid() == 0 ? stream.peer() : absl::StrCat("process ", stream.peer_pid()));
  absl::StrAppendFormat(&text, "\n  arena %s, slots: %d free, %d filling, %d ready, %d out\n",
                        FormatBytes(stream.arena().bytes()), stream.arena().slots_free(),
                        stream.arena().slots_filling(), stream.arena().slots_ready(),
                        stream.arena().slots_sending());
  if (stream.has_share()) absl::StrAppend(&text, ShareText(stream.share()));
  return text;
}

std::string ServiceLine(const std::string& target, const v1::GetStatusResponse& status) {
  std::vector<std::string> streams;
  for (const v1::StreamStatus& stream : status.streams()) streams.push_back(stream.name());
  return absl::StrFormat(
      "%s  pid %d, since %s, %d samples delivered; %s", target, status.pid(),
      Clock(status.start_time()), status.samples_delivered(),
      streams.empty() ? "no streams" : absl::StrCat("streams: ", absl::StrJoin(streams, ", ")));
}

std::string StatusText(const v1::GetStatusResponse& status,
                       const std::optional<StatusRates>& rates) {
  std::string text = absl::StrFormat(
      "bulkheadd %s, pid %d: %d samples produced, %d delivered, %d substituted, %d done twice; "
      "quota met %d times%s%s\nsupervisor: %s (at most %s)\n",
      status.version(), status.pid(), status.samples_produced(), status.samples_delivered(),
      status.samples_substituted(), status.samples_redone(), status.limit_events(),
      status.wild_writes() == 0
          ? ""
          : absl::StrFormat("; %d workers ended because they wrote to another's batch",
                            status.wild_writes()),
      status.samples_quarantined() == 0
          ? ""
          : absl::StrFormat("; %d in quarantine", status.samples_quarantined()),
      FormatBytes(status.supervisor().memory_bytes()),
      FormatBytes(status.supervisor().peak_memory_bytes()));
  if (status.supervisor_silent_seconds() > 0) {
    return absl::StrFormat(
        "bulkheadd %s, pid %d: its supervisor has been silent for %.0f s, so nothing else is "
        "known; see the service's log, and restart the service\n",
        status.version(), status.pid(), status.supervisor_silent_seconds());
  }
  if (status.log_lines_dropped() > 0) {
    absl::StrAppend(&text, "log: ", status.log_lines_dropped(),
                    " lines were dropped, because its reader does not keep up\n");
  }
  absl::StrAppend(&text, Containment(status.containment()));
  if (status.memory().budget_bytes() > 0) {
    const v1::MemoryBudget& memory = status.memory();
    absl::StrAppend(&text, "budget: ", FormatBytes(memory.budget_bytes()), " of ",
                    FormatBytes(memory.limit_bytes()), "; promised: supervisor ",
                    FormatBytes(memory.supervisor_bytes()), ", arenas ",
                    FormatBytes(memory.arena_bytes()), ", workers ",
                    FormatBytes(memory.quota_bytes()), ", a replacement ",
                    FormatBytes(memory.replacement_bytes()), "\n");
  }
  absl::StrAppend(&text, Jpeg(status.jpeg(), status.seek_cache(), status.coefficient_cache()));
  absl::StrAppend(&text, Kept(status.kept(), status.stage_cache()));
  if (status.has_object_reads()) absl::StrAppend(&text, Objects(status.object_reads()));
  absl::StrAppendFormat(&text, "\n%-20s %4s %4s %-10s %9s %9s %9s %9s  %s\n", "pipeline", "slot",
                        "gen", "state", "memory", "peak", "quota", "samples", "holds most");
  for (const v1::WorkerStatus& worker : status.workers()) absl::StrAppend(&text, Worker(worker));
  if (status.workers().empty()) absl::StrAppend(&text, "(no workers)\n");
  for (const v1::WorkerTuning& tuning : status.tunings()) absl::StrAppend(&text, Tuning(tuning));
  for (const v1::Verdict& verdict : status.verdicts()) absl::StrAppend(&text, VerdictText(verdict));
  if (rates.has_value()) absl::StrAppend(&text, Rates(*rates));
  for (int i = 0; i < status.streams_size(); ++i) {
    const bool known = rates.has_value() && static_cast<size_t>(i) < rates->streams.size();
    absl::StrAppend(&text, StreamText(status.streams(i), known ? &rates->streams[i] : nullptr));
  }
  absl::StrAppend(&text,
                  Newest("\nreplaced as planned:\n", status.recent_recyclings(),
                         [](const v1::Recycling& recycling) {
                           const std::string largest = Largest(recycling.stages());
                           return absl::StrCat(
                               "  ", Clock(recycling.time()), "  ", recycling.pipeline(), "/",
                               recycling.slot(), "  ", recycling.reason(),
                               largest.empty() ? "" : "; held most: ", largest, "\n");
                         }),
                  Newest("\ndeaths:\n", status.recent_exits(), ExitText));
  return text;
}

}  // namespace bulkhead::tools
