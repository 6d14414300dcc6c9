#include "server/data/object_fetcher.h"

#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "server/base/error.h"
#include "server/os/files/filesystem.h"
#include "server/os/monotonic_wait.h"

namespace bulkhead {
namespace {

constexpr absl::Duration kLookForCancel = absl::Milliseconds(100);

absl::Status CallerHasGone() { return absl::CancelledError("the caller has gone"); }

}  // namespace

internal::v1::FetchParts::Part PartOf(const internal::v1::ResolvedFile& file) {
  internal::v1::FetchParts::Part part;
  *part.mutable_object()->mutable_object() = file.object();
  part.mutable_object()->set_size_bytes(file.size_bytes());
  part.mutable_object()->set_mtime_ns(file.mtime_ns());
  return part;
}

// What a caller waits for, shared with the callback.
struct ObjectFetcher::Answer : std::enable_shared_from_this<Answer> {
  Done Take() {
    return [answer = shared_from_this()](const absl::Status& status) {
      answer->status = status;
      answer->here.Notify();
    };
  }
  // False if the caller cancels.
  bool Await(const std::function<bool()>& cancelled) {
    while (!AwaitFor(here, kLookForCancel)) {
      if (cancelled()) return false;
    }
    return true;
  }

  absl::Notification here;
  absl::Status status;
};

ObjectFetcher::ObjectFetcher(Config config)
    : config_(std::move(config)), uses_(std::make_shared<ObjectUses>()) {}

ObjectFetcher::~ObjectFetcher() { uses_->SetOnUnused(nullptr); }

std::shared_ptr<void> ObjectFetcher::Use(std::vector<std::string> keys) {
  return uses_->Add(std::move(keys));
}

absl::StatusOr<FetchChild*> ObjectFetcher::Started() {
  absl::MutexLock lock(&mutex_);
  if (process_ == nullptr) {
    if (config_.admit && admission_ == nullptr) {
      BULKHEAD_ASSIGN_OR_RETURN(admission_, config_.admit());
    }
    BULKHEAD_ASSIGN_OR_RETURN(process_, FetchChild::Create(config_));
    uses_->SetOnUnused(
        [process = process_.get()](const auto& keys) { process->CloseObjects(keys); });
  }
  return process_.get();
}

ObjectFetcher::Found ObjectFetcher::Find(const std::string& pattern,
                                         const std::function<bool()>& cancelled) {
  BULKHEAD_ASSIGN_OR_RETURN(std::vector<Found> found, FindAll({pattern}, cancelled));
  return std::move(found[0]);
}

absl::StatusOr<std::vector<ObjectFetcher::Found>> ObjectFetcher::FindAll(
    const std::vector<std::string>& patterns, const std::function<bool()>& cancelled) {
  BULKHEAD_ASSIGN_OR_RETURN(FetchChild* const process, Started());
  struct Finding {
    uint64_t id = 0;
    std::shared_ptr<Answer> answer = std::make_shared<Answer>();
    std::shared_ptr<internal::v1::ObjectsFound> found =
        std::make_shared<internal::v1::ObjectsFound>();
  };
  std::vector<Finding> findings(patterns.size());
  for (size_t i = 0; i < patterns.size(); ++i) {
    findings[i].id = process->Ask(
        [&](uint64_t id, internal::v1::ToFetch& message) {
          message.mutable_find()->set_id(id);
          message.mutable_find()->set_pattern(patterns[i]);
        },
        [done = findings[i].answer->Take(), found = findings[i].found](const auto& answer) {
          if (answer.ok()) *found = answer->found();
          done(answer.status());
        });
  }
  std::vector<Found> results;
  for (const Finding& finding : findings) {
    if (!finding.answer->Await(cancelled)) {
      for (const Finding& each : findings) process->Release(each.id);
      return CallerHasGone();
    }
    if (!finding.answer->status.ok()) {
      results.emplace_back(finding.answer->status);
      continue;
    }
    std::vector<internal::v1::ResolvedFile> files;
    for (const internal::v1::FoundObject& object : finding.found->objects()) {
      files.push_back(process->folders().Resolve(object));
    }
    results.emplace_back(std::move(files));
  }
  return results;
}

absl::StatusOr<internal::v1::TableOfObjects> ObjectFetcher::List(
    internal::v1::ListObjects list, SharedFd urls,
    const std::function<void(uint64_t objects)>& progress, const std::function<bool()>& cancelled) {
  BULKHEAD_ASSIGN_OR_RETURN(FetchChild* const process, Started());
  struct Told {
    std::atomic<uint64_t> objects{0};
    std::string key;
  };
  const auto answer = std::make_shared<Answer>();
  const auto told = std::make_shared<Told>();
  const uint64_t id = process->Ask(
      [&](uint64_t number, internal::v1::ToFetch& message) {
        *message.mutable_list() = std::move(list);
        message.mutable_list()->set_id(number);
      },
      [done = answer->Take(), told](const auto& said) {
        if (said.ok()) {
          told->objects = said->listed().objects();
          told->key = said->listed().key();
        }
        if (!said.ok() || !told->key.empty()) done(said.status());
      },
      std::move(urls));
  const bool is_here = answer->Await([&] {
    progress(told->objects);
    return cancelled();
  });
  if (!is_here) {
    process->Release(id);
    return CallerHasGone();
  }
  BULKHEAD_RETURN_IF_ERROR(answer->status);
  internal::v1::TableOfObjects table = process->folders().TableOf(told->key);
  // Another service that needs room must not remove it while the process is replaced.
  absl::StatusOr<UniqueFd> held = OpenOwnFile(table.path() + ".table", /*writable=*/false);
  if (!held.ok() || !ShareFile(held->get())) {
    return MakeError(absl::StatusCode::kUnavailable, reason::kFileUnreadable,
                     absl::StrCat(table.path(),
                                  ".table: the table of objects was removed; open "
                                  "the stream again"));
  }
  uses_->Hold(told->key, *std::move(held));
  return table;
}

uint64_t ObjectFetcher::Fetch(const Parts& parts, Trust trust, Done done) {
  const absl::StatusOr<FetchChild*> process = Started();
  if (!process.ok()) {
    done(process.status());
    return 0;
  }
  return (*process)->Ask(
      [&](uint64_t id, internal::v1::ToFetch& message) {
        message.mutable_fetch()->set_id(id);
        message.mutable_fetch()->set_trust(trust);
        *message.mutable_fetch()->mutable_parts() = parts;
      },
      [done = std::move(done)](const auto& answer) { done(answer.status()); });
}

void ObjectFetcher::Release(uint64_t id) {
  if (const absl::StatusOr<FetchChild*> process = Started(); process.ok()) (*process)->Release(id);
}

ObjectFetcher::WholeFetch::WholeFetch(ObjectFetcher& fetcher,
                                      const internal::v1::ResolvedFile& file, Trust trust)
    : fetcher_(fetcher), answer_(std::make_shared<Answer>()) {
  Parts parts;
  internal::v1::FetchParts::Part& part = *parts.Add() = PartOf(file);
  part.add_bounds(0);
  part.add_bounds(file.size_bytes());
  id_ = fetcher_.Fetch(parts, trust, answer_->Take());
}

absl::Status ObjectFetcher::WholeFetch::Wait(const std::function<bool()>& cancelled) {
  return answer_->Await(cancelled) ? answer_->status : CallerHasGone();
}

absl::Status ObjectFetcher::Put(const std::string& url, std::string content,
                                const std::function<bool()>& cancelled) {
  BULKHEAD_ASSIGN_OR_RETURN(FetchChild* const process, Started());
  const auto answer = std::make_shared<Answer>();
  const uint64_t id = process->Ask(
      [&](uint64_t number, internal::v1::ToFetch& message) {
        message.mutable_put()->set_id(number);
        message.mutable_put()->set_url(url);
        message.mutable_put()->set_content(std::move(content));
      },
      [done = answer->Take()](const auto& said) { done(said.status()); });
  if (answer->Await(cancelled)) return answer->status;
  process->Release(id);
  return CallerHasGone();
}

bool ObjectFetcher::Describe(v1::ObjectReads& reads) const {
  absl::MutexLock lock(&mutex_);
  if (process_ == nullptr) return false;
  const internal::v1::FetchCounts counts = process_->counts();
  reads.set_requests(counts.requests());
  reads.set_retries(counts.retries());
  reads.set_hedges(counts.hedges());
  reads.set_bytes_fetched(counts.bytes_fetched());
  reads.set_cached_bytes(counts.cached_bytes());
  reads.set_most_cached_bytes(config_.cache_bytes);
  reads.set_spare_bytes(counts.spare_bytes());
  reads.set_restarts(process_->restarts());
  return true;
}

}  // namespace bulkhead
