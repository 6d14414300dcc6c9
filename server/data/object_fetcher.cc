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

}  // namespace

internal::v1::FetchParts::Part PartOf(const internal::v1::ResolvedFile& file) {
  internal::v1::FetchParts::Part part;
  *part.mutable_object()->mutable_object() = file.object();
  part.mutable_object()->set_size_bytes(file.size_bytes());
  part.mutable_object()->set_mtime_ns(file.mtime_ns());
  return part;
}

// What was asked of the process, until this goes: then it is released.
class ObjectFetcher::Question {
 public:
  // Asks with the message that `fill` makes, without its number, and with `fd`, if it is not null.
  using Fill = std::function<void(uint64_t id, internal::v1::ToFetch& message)>;
  Question(FetchChild& process, const Fill& fill, SharedFd fd = nullptr)
      : process_(process), id_(process.Ask(fill, TakerOf(answer_), std::move(fd))) {}
  ~Question() { process_.Release(id_); }
  Question(const Question&) = delete;
  Question& operator=(const Question&) = delete;

  // Blocks until the answer is here, and takes it. CANCELLED soon after the caller cancels.
  absl::StatusOr<internal::v1::FromFetch> Wait(const std::function<bool()>& cancelled) {
    while (!AwaitFor(answer_->here, kLookForCancel)) {
      if (cancelled()) return absl::CancelledError("the caller has gone");
    }
    return std::move(answer_->message);
  }
  // How many objects a listing has so far.
  uint64_t listed_objects() const { return answer_->listed_objects; }

 private:
  // Shared with the callback.
  struct Answer {
    absl::Notification here;
    absl::StatusOr<internal::v1::FromFetch> message = internal::v1::FromFetch();
    std::atomic<uint64_t> listed_objects{0};
  };
  static FetchChild::Answered TakerOf(std::shared_ptr<Answer> answer) {
    return [answer](const absl::StatusOr<internal::v1::FromFetch>& said) {
      if (said.ok() && said->has_listed()) answer->listed_objects = said->listed().objects();
      if (said.ok() && said->has_listed() && said->listed().key().empty()) return;  // goes on
      answer->message = said;
      answer->here.Notify();
    };
  }

  FetchChild& process_;
  const std::shared_ptr<Answer> answer_ = std::make_shared<Answer>();
  const uint64_t id_;
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
  std::vector<std::unique_ptr<Question>> questions;
  for (const std::string& pattern : patterns) {
    questions.push_back(std::make_unique<Question>(*process, [&](uint64_t id, auto& message) {
      message.mutable_find()->set_id(id);
      message.mutable_find()->set_pattern(pattern);
    }));
  }
  std::vector<Found> results;
  for (const auto& question : questions) {
    const absl::StatusOr<internal::v1::FromFetch> answer = question->Wait(cancelled);
    if (absl::IsCancelled(answer.status())) return answer.status();
    if (!answer.ok()) {
      results.emplace_back(answer.status());
      continue;
    }
    Found& files = results.emplace_back(std::vector<internal::v1::ResolvedFile>());
    for (const internal::v1::FoundObject& object : answer->found().objects()) {
      files->push_back(process->folders().Resolve(object));
    }
  }
  return results;
}

absl::StatusOr<internal::v1::TableOfObjects> ObjectFetcher::List(
    internal::v1::ListObjects list, SharedFd urls,
    const std::function<void(uint64_t objects)>& progress, const std::function<bool()>& cancelled) {
  BULKHEAD_ASSIGN_OR_RETURN(FetchChild* const process, Started());
  Question question(
      *process,
      [&](uint64_t id, internal::v1::ToFetch& message) {
        *message.mutable_list() = std::move(list);
        message.mutable_list()->set_id(id);
      },
      std::move(urls));
  BULKHEAD_ASSIGN_OR_RETURN(const internal::v1::FromFetch answer, question.Wait([&] {
    progress(question.listed_objects());
    return cancelled();
  }));
  const std::string& key = answer.listed().key();
  internal::v1::TableOfObjects table = process->folders().TableOf(key);
  // Another service that needs room must not remove it while the process is replaced.
  absl::StatusOr<UniqueFd> held = OpenOwnFile(table.path() + ".table", /*writable=*/false);
  if (!held.ok() || !ShareFile(held->get())) {
    return MakeError(absl::StatusCode::kUnavailable, reason::kFileUnreadable,
                     absl::StrCat(table.path(),
                                  ".table: the table of objects was removed; open "
                                  "the stream again"));
  }
  uses_->Hold(key, *std::move(held));
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
                                      const internal::v1::ResolvedFile& file, Trust trust) {
  const absl::StatusOr<FetchChild*> process = fetcher.Started();
  if (!process.ok()) {
    question_ = process.status();
    return;
  }
  question_ = std::make_unique<Question>(**process, [&](uint64_t id, auto& message) {
    message.mutable_fetch()->set_id(id);
    message.mutable_fetch()->set_trust(trust);
    internal::v1::FetchParts::Part& part = *message.mutable_fetch()->add_parts() = PartOf(file);
    part.add_bounds(0);
    part.add_bounds(file.size_bytes());
  });
}

ObjectFetcher::WholeFetch::~WholeFetch() = default;

absl::Status ObjectFetcher::WholeFetch::Wait(const std::function<bool()>& cancelled) {
  return question_.ok() ? (*question_)->Wait(cancelled).status() : question_.status();
}

absl::Status ObjectFetcher::Put(const std::string& url, std::string content,
                                const std::function<bool()>& cancelled) {
  BULKHEAD_ASSIGN_OR_RETURN(FetchChild* const process, Started());
  Question question(*process, [&](uint64_t id, internal::v1::ToFetch& message) {
    message.mutable_put()->set_id(id);
    message.mutable_put()->set_url(url);
    message.mutable_put()->set_content(std::move(content));
  });
  return question.Wait(cancelled).status();
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
