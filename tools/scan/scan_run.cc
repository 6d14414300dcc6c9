#include "tools/scan/scan_run.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "bulkhead/error.h"
#include "client/cpp/internal/service/embedded.h"
#include "server/base/error.h"
#include "server/base/record_name.h"
#include "server/data/object_fetcher.h"
#include "server/data/source_resolver.h"
#include "server/spec/normalize/normalize.h"
#include "server/spec/record_files.h"
#include "server/spec/selection.h"
#include "server/spec/signature.h"
#include "server/spec/source_signature.h"
#include "server/spec/yaml/yaml.h"
#include "tools/local/local_objects.h"

namespace bulkhead::tools {
namespace {

constexpr absl::Duration kNextDeadline = absl::Seconds(300);
// A service takes 256 openings of a client at once, and then few a second.
constexpr uint64_t kMostOpenings = 250;

// What the events of a stream say, gathered on the loader's reader thread.
class Events {
 public:
  void Add(const SubstitutionEvent& event) {
    absl::MutexLock lock(&mutex_);
    Finding finding = FindingOf(event.reason, event.metadata, event.message);
    const auto culprit = culprits_.find(finding.record);
    if (culprit != culprits_.end()) finding.message = culprit->second;
    findings_.push_back(std::move(finding));
  }
  // What a record in quarantine did says more than that it is there.
  void Add(const QuarantineEvent& event) {
    absl::MutexLock lock(&mutex_);
    culprits_[event.record] = event.message;
  }
  std::vector<Finding> Take() {
    absl::MutexLock lock(&mutex_);
    return std::exchange(findings_, {});
  }

 private:
  absl::Mutex mutex_;
  std::map<std::string, std::string> culprits_ ABSL_GUARDED_BY(mutex_);
  std::vector<Finding> findings_ ABSL_GUARDED_BY(mutex_);
};

// The scan of one source.
class SourceScan {
 public:
  // `place` is put before what is found: "0:" in a mixture.
  SourceScan(v1::PipelineSpec spec, std::string base_dir, std::string place,
             const ScanOptions& options)
      : spec_(std::move(spec)),
        base_dir_(std::move(base_dir)),
        place_(std::move(place)),
        options_(options) {}

  absl::StatusOr<uint64_t> Run() {
    if (HasRecordFiles(spec_.source()) && !LeaveOutUnreadable()) return 0;
    for (;;) {
      const absl::StatusOr<uint64_t> records = Stream();
      if (records.ok()) return records;
      if (LeaveOutFile(records.status())) continue;
      const bool none_left = ErrorReason(records.status()) == reason::kNoSamples;
      if (none_left && !left_out_.empty()) return 0;
      return records;
    }
  }

 private:
  void Tell(Finding finding) {
    // A record may be met again, as another sample's partner or after a reconnection.
    const std::string key = absl::StrCat(finding.file, "@", finding.offset, ":", finding.line);
    if (!told_.insert(key).second) return;
    finding.excluded_as =
        place_ + (finding.record.empty() ? CanonicalRecordName(finding.file) : finding.record);
    if (!place_.empty() && !finding.record.empty()) finding.record = place_ + finding.record;
    if (!place_.empty()) finding.message = place_ + finding.message;
    options_.on_finding(finding);
  }

  // Finds the files, and leaves out patterns that find none; false when nothing is left.
  bool LeaveOutUnreadable() {
    auto& files = MutableFilesOf(*spec_.mutable_source());
    const auto patterns = files;
    files.Clear();
    for (const std::string& pattern : patterns) {
      v1::Source one = spec_.source();
      *MutableFilesOf(one).Add() = pattern;
      const auto found = ResolveSource(one, base_dir_, {{}, /*unrestricted=*/true},
                                       [this](const std::string& url) { return FindObjects(url); });
      if (found.ok()) {
        *files.Add() = pattern;
      } else {
        const auto info = GetErrorInfo(found.status());
        Tell(FindingOf(info.has_value() ? info->reason : "", {{"file", pattern}},
                       std::string(found.status().message())));
      }
    }
    return !files.empty();
  }

  ObjectFetcher::Found FindObjects(const std::string& url) {
    if (objects_ == nullptr) {
      BULKHEAD_ASSIGN_OR_RETURN(objects_, MakeLocalObjects());
    }
    return objects_->Find(url, [] { return false; });
  }

  // Leaves the file out that `status` names: of an index that could not be made, or of an image
  // that cannot be read. False when it names none.
  bool LeaveOutFile(const absl::Status& status) {
    const std::string why = ErrorReason(status);
    const std::string file = ErrorMetadata(status)["file"];
    const std::set<absl::string_view> of_a_file = {reason::kCorruptRecord, reason::kTruncatedRecord,
                                                   reason::kFileEmpty, reason::kFileNotFound,
                                                   reason::kFileUnreadable};
    const std::string name = CanonicalRecordName(file);
    const bool of_a_record = HasRecordFiles(spec_.source())
                                 ? of_a_file.count(why) > 0
                                 : opened_ && why == reason::kFileUnreadable;
    if (!of_a_record || file.empty() || !left_out_.insert(name).second) {
      return false;
    }
    // A finding is about a file, not about the service, whose log an error of a stream ends with.
    const absl::string_view message = status.message();
    Tell(FindingOf(why, {{"file", file}},
                   std::string(message.substr(0, message.find("; the log of the ")))));
    spec_.add_exclude(name);
    return true;
  }

  absl::StatusOr<uint64_t> Stream() {
    Events events;
    LoaderOptions loader_options;
    loader_options.spec = SpecText(SpecToYaml(spec_));
    loader_options.spec.base_dir = base_dir_;
    loader_options.embedded = options_.service;
    if (openings_++ % kMostOpenings == 0) {
      service_.reset();
      BULKHEAD_ASSIGN_OR_RETURN(service_, client_internal::EmbeddedService::Acquire(
                                              options_.service, loader_options.open_deadline));
    }
    loader_options.on_substitution = [&](const SubstitutionEvent& event) { events.Add(event); };
    loader_options.on_quarantine = [&](const QuarantineEvent& event) { events.Add(event); };
    loader_options.on_progress = [&](const LoaderProgress& progress) {
      options_.on_progress(absl::StrFormat("%s, %d records", progress.activity, progress.records));
    };
    opened_ = false;
    BULKHEAD_ASSIGN_OR_RETURN(const std::unique_ptr<Loader> loader, Loader::Open(loader_options));
    opened_ = true;
    const uint64_t all = loader->info().samples_per_epoch;
    uint64_t done = 0;
    for (;;) {
      absl::StatusOr<std::optional<Batch>> batch = loader->Next(kNextDeadline);
      for (Finding& finding : events.Take()) Tell(std::move(finding));
      if (!batch.ok()) return batch.status();
      if (!batch->has_value()) return done;
      done += (*batch)->valid_count();
      options_.on_progress(
          absl::StrFormat("%s%d of %d records read, %d bad", place_, done, all, told_.size()));
    }
  }

  v1::PipelineSpec spec_;
  const std::string base_dir_;
  const std::string place_;
  const ScanOptions& options_;
  std::set<std::string> told_;
  std::set<std::string> left_out_;          // files, by their names
  std::unique_ptr<ObjectFetcher> objects_;  // null: no URL was looked for yet
  // Held from one loader to the next, which share it.
  std::shared_ptr<client_internal::EmbeddedService> service_;
  uint64_t openings_ = 0;
  bool opened_ = false;  // the last of them
};

// Source `number` of a mixture, as a spec of its own.
v1::PipelineSpec Alone(const v1::PipelineSpec& spec, int number) {
  const v1::MixedSource& mixed = spec.source().mixture().sources(number);
  v1::PipelineSpec alone = spec;
  *alone.mutable_exclude() = SelectionOf(spec, number).exclude();
  *alone.mutable_source() = mixed.source();
  *alone.mutable_features() = mixed.features();
  *alone.mutable_filter() = mixed.filter();
  alone.clear_split();
  if (mixed.has_split()) *alone.mutable_split() = mixed.split();
  alone.set_skip(mixed.skip());
  alone.clear_take();
  if (mixed.has_take()) alone.set_take(mixed.take());
  *alone.mutable_stages() = mixed.stages();
  alone.mutable_stages()->MergeFrom(spec.stages());
  auto& outputs = *alone.mutable_outputs();
  outputs.erase(std::remove(outputs.begin(), outputs.end(), kSourceIdFeature), outputs.end());
  return alone;
}

absl::StatusOr<v1::PipelineSpec> ForScan(v1::PipelineSpec spec) {
  spec.mutable_order()->mutable_sequential();
  spec.set_epochs(1);
  spec.clear_deterministic();
  spec.mutable_batch()->set_last(v1::LAST_BATCH_PARTIAL);
  spec.mutable_errors()->set_policy(v1::ERROR_ACTION_BLANK);
  spec.mutable_errors()->set_max_fraction(1);
  v1::PipelineSpec plain = spec;
  plain.clear_batch_stages();
  // Outputs may be what batch stages make, or bounded by them alone.
  if (Normalize(plain).ok() && InferSignature(plain).ok()) return plain;
  BULKHEAD_RETURN_IF_ERROR(Normalize(spec));
  BULKHEAD_RETURN_IF_ERROR(InferSignature(spec).status());
  return spec;
}

// Specs that together make every record of the normalized `spec` into a sample once, one for each
// source: in the source's own order, without batch stages, and with what is bad left blank. In the
// spec of a mixture's source its own stages and the common ones are numbered as one list.
// SPEC_INVALID when a source cannot stand alone.
absl::StatusOr<std::vector<v1::PipelineSpec>> ScanSpecs(const v1::PipelineSpec& spec) {
  std::vector<v1::PipelineSpec> specs;
  if (!spec.source().has_mixture()) {
    BULKHEAD_ASSIGN_OR_RETURN(specs.emplace_back(), ForScan(spec));
    return specs;
  }
  for (int i = 0; i < spec.source().mixture().sources_size(); ++i) {
    BULKHEAD_ASSIGN_OR_RETURN(specs.emplace_back(), ForScan(Alone(spec, i)));
  }
  return specs;
}

}  // namespace

absl::StatusOr<uint64_t> Scan(const v1::PipelineSpec& spec, const std::string& base_dir,
                              const ScanOptions& options) {
  BULKHEAD_ASSIGN_OR_RETURN(const std::vector<v1::PipelineSpec> specs, ScanSpecs(spec));
  uint64_t records = 0;
  for (size_t i = 0; i < specs.size(); ++i) {
    const std::string place = specs.size() > 1 ? absl::StrCat(i, ":") : "";
    BULKHEAD_ASSIGN_OR_RETURN(const uint64_t of_one,
                              SourceScan(specs[i], base_dir, place, options).Run());
    records += of_one;
  }
  return records;
}

}  // namespace bulkhead::tools
