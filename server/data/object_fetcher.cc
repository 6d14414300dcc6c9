#include "server/data/object_fetcher.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <deque>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "server/arena/worker_error.h"
#include "server/base/error.h"
#include "server/base/paths/object_url.h"
#include "server/blocks/object_blocks.h"
#include "server/os/event_loop.h"
#include "server/os/files/filesystem.h"
#include "server/os/files/random_name.h"
#include "server/os/monotonic_wait.h"
#include "server/os/process/child_process.h"
#include "server/os/process/thread.h"
#include "server/os/sockets/packet_socket.h"

namespace bulkhead {
namespace {

constexpr absl::Duration kFirstBackoff = absl::Milliseconds(50);
constexpr absl::Duration kMostBackoff = absl::Seconds(5);
// Deaths without a new answer in between, after which what is asked for fails.
constexpr int kMostDeaths = 8;
constexpr char kSpare[] = "spare-";
constexpr absl::Duration kLookForCancel = absl::Milliseconds(100);

// Of a process that has told none yet: nothing was done, and what lies on the disk stays.
internal::v1::FetchCounts FetchCountsOfNone(const internal::v1::FetchCounts& past) {
  internal::v1::FetchCounts counts;
  counts.set_cached_bytes(past.cached_bytes());
  counts.set_spare_bytes(past.spare_bytes());
  return counts;
}

absl::Status CallerHasGone() { return absl::CancelledError("the caller has gone"); }

// 0 for a folder that is not there.
std::vector<uint64_t> InodesOf(const std::vector<std::string>& folders) {
  std::vector<uint64_t> inodes;
  for (const std::string& folder : folders) {
    const absl::StatusOr<FileInfo> info = StatFile(folder);
    inodes.push_back(info.ok() ? info->inode : 0);
  }
  return inodes;
}

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

// Lives on its own thread, which spawns the process: that dies with the thread.
class ObjectFetcher::Process {
 public:
  using Found = std::function<void(absl::StatusOr<internal::v1::ObjectsFound>)>;
  using Listed = std::function<void(absl::StatusOr<internal::v1::ObjectsListed>)>;

  static absl::StatusOr<std::unique_ptr<Process>> Create(const Config& config) {
    auto loop = EventLoop::Create();
    if (!loop.ok()) return loop.status();
    std::unique_ptr<Process> process(new Process(config, *std::move(loop)));
    const auto run = [raw = process.get()] {
      raw->Spawn();
      raw->loop_->Run();
      raw->Close();
    };
    BULKHEAD_RETURN_IF_ERROR(StartThread(run, process->thread_));
    return process;
  }

  ~Process() {
    loop_->Stop();
    if (thread_.joinable()) thread_.join();
    RemoveTree(spare_folder_);
  }

  // With the paths where its blocks will lie.
  internal::v1::ResolvedFile Resolve(const internal::v1::FoundObject& object) const {
    internal::v1::ResolvedFile file;
    *file.mutable_object() = object.object();
    const std::string& key = object.object().key();
    file.set_path(absl::StrCat(blocks_folder_, "/", key));
    file.mutable_object()->set_spare_path(absl::StrCat(spare_folder_, "/", key));
    file.set_size_bytes(object.size_bytes());
    file.set_mtime_ns(object.mtime_ns());
    file.set_inode(ObjectBlocks::NumberOf(key));
    return file;
  }

  uint64_t Find(const std::string& pattern, Found found) {
    internal::v1::ToFetch message;
    const uint64_t id = next_id_++;
    message.mutable_find()->set_id(id);
    message.mutable_find()->set_pattern(pattern);
    return Ask(id, {std::move(message), std::move(found), nullptr});
  }

  uint64_t Fetch(const Parts& parts, Trust trust, Done done) {
    internal::v1::ToFetch message;
    const uint64_t id = next_id_++;
    message.mutable_fetch()->set_id(id);
    message.mutable_fetch()->set_trust(trust);
    *message.mutable_fetch()->mutable_parts() = parts;
    return Ask(id, {std::move(message), nullptr, std::move(done)});
  }

  // `urls`: as the message's file; null for a folder.
  uint64_t List(internal::v1::ListObjects list, SharedFd urls, Listed listed) {
    const uint64_t id = next_id_++;
    internal::v1::ToFetch message;
    *message.mutable_list() = std::move(list);
    message.mutable_list()->set_id(id);
    Request request{std::move(message), nullptr, nullptr};
    request.listed = std::move(listed);
    request.fd = std::move(urls);
    return Ask(id, std::move(request));
  }

  // Where the table of this key and the bytes of its objects lie.
  internal::v1::TableOfObjects TableOf(const std::string& key) const {
    internal::v1::TableOfObjects table;
    table.set_key(key);
    table.set_path(absl::StrCat(blocks_folder_, "/", key));
    table.set_spare_path(absl::StrCat(spare_folder_, "/", key));
    return table;
  }

  uint64_t Put(const std::string& url, std::string content, Done done) {
    internal::v1::ToFetch message;
    const uint64_t id = next_id_++;
    message.mutable_put()->set_id(id);
    message.mutable_put()->set_url(url);
    message.mutable_put()->set_content(std::move(content));
    return Ask(id, {std::move(message), nullptr, std::move(done)});
  }

  void CloseObjects(const std::vector<std::string>& keys) {
    internal::v1::ToFetch message;
    message.mutable_close()->mutable_keys()->Assign(keys.begin(), keys.end());
    loop_->Post([this, message = std::move(message)] { Send(message); });
  }

  void Release(uint64_t id) {
    loop_->Post([this, id] {
      if (requests_.erase(id) == 0) return;
      internal::v1::ToFetch message;
      message.mutable_release()->set_id(id);
      Send(message);
    });
  }

  uint64_t restarts() const { return restarts_; }
  internal::v1::FetchCounts counts() const {
    absl::MutexLock lock(&counts_mutex_);
    internal::v1::FetchCounts sum = counts_.has_value() ? *counts_ : FetchCountsOfNone(past_);
    sum.set_requests(sum.requests() + past_.requests());
    sum.set_retries(sum.retries() + past_.retries());
    sum.set_hedges(sum.hedges() + past_.hedges());
    sum.set_bytes_fetched(sum.bytes_fetched() + past_.bytes_fetched());
    return sum;
  }

 private:
  struct Request {
    internal::v1::ToFetch message;
    Found found;
    Done done;
    bool answered = false;  // its parts are kept
    Listed listed = nullptr;
    SharedFd fd = nullptr;  // goes with the message
  };

  // What a process is to get.
  struct Queued {
    std::string bytes;
    SharedFd fd;
  };

  uint64_t Ask(uint64_t id, Request request) {
    loop_->Post([this, id, request = std::move(request)]() mutable {
      requests_[id] = std::move(request);
      if (!unusable_.ok()) return FailAll(unusable_);
      LookForFolders();
      Send(requests_[id].message, requests_[id].fd);
    });
    return id;
  }

  Process(const Config& config, std::unique_ptr<EventLoop> loop)
      : config_(config),
        loop_(std::move(loop)),
        blocks_folder_(absl::StrCat(config.folder, "/blocks")),
        spare_folder_(absl::StrCat(config.folder, "/", kSpare, RandomName(8))) {}

  void Spawn() {
    const absl::Status status = TrySpawn();
    if (!status.ok()) OnEnd(std::string(status.message()));
  }

  absl::Status TrySpawn() {
    BULKHEAD_RETURN_IF_ERROR(MakeDirectories(blocks_folder_));
    if (!spare_lock_ || !StatFile(spare_folder_).ok()) {
      BULKHEAD_RETURN_IF_ERROR(TakeSpareFolder());
    }
    inodes_ = InodesOf({config_.folder, blocks_folder_, spare_folder_});
    BULKHEAD_ASSIGN_OR_RETURN(auto pair, PacketSocket::MakePair());
    SpawnSpec spec;
    spec.program = config_.program;
    spec.args = {absl::StrCat("--control-fd=", ChildProcess::kPassedFd)};
    spec.passed_fd = pair.second.fd();
    spec.output_fd = config_.output_fd;
    spec.oom_score_adj = 500;
    BULKHEAD_ASSIGN_OR_RETURN(ChildProcess child, ChildProcess::Spawn(spec));
    child_.emplace(std::move(child));
    socket_.emplace(std::move(pair.first));
    BULKHEAD_RETURN_IF_ERROR(loop_->Watch(socket_->fd(), [this] { Receive(); }));
    BULKHEAD_RETURN_IF_ERROR(loop_->Watch(child_->pidfd(), [this] { OnExit(); }));
    internal::v1::ToFetch begin;
    begin.mutable_begin()->set_folder(blocks_folder_);
    begin.mutable_begin()->set_cache_bytes(config_.cache_bytes);
    begin.mutable_begin()->set_spare_folder(spare_folder_);
    begin.mutable_begin()->set_quota_bytes(config_.quota_bytes);
    *begin.mutable_begin()->mutable_sandbox() = config_.sandbox;
    begin.mutable_begin()->mutable_sandbox()->set_scratch(config_.folder);
    Send(begin);
    for (auto& [id, request] : requests_) {
      // What is kept may have been written by a process that died at it.
      if (request.message.has_fetch() &&
          (request.answered ||
           request.message.fetch().trust() == internal::v1::FetchParts::TRUST_UNSPECIFIED)) {
        request.message.mutable_fetch()->set_trust(internal::v1::FetchParts::TRUST_CHECKSUMS);
      }
      Send(request.message, request.fd);
    }
    internal::v1::ToFetch rest;
    rest.mutable_forget_rest();
    Send(rest);
    return absl::OkStatus();
  }

  // Folders that were removed are made again for another process: the sandbox of the one that runs
  // holds to those that were there when it began.
  void LookForFolders() {
    if (!child_.has_value()) return;
    const std::vector<uint64_t> now = InodesOf({config_.folder, blocks_folder_, spare_folder_});
    if (std::exchange(inodes_, now) == now) return;
    spdlog::warn("{}: was removed while it was used; bulkhead-fetch begins again with another one",
                 config_.folder);
    child_->Signal(SIGKILL);
  }

  // Makes the spare folder and removes those of services that were killed.
  absl::Status TakeSpareFolder() {
    for (const std::string& name : NamesIn(config_.folder)) {
      const std::string folder = absl::StrCat(config_.folder, "/", name);
      if (!absl::StartsWith(name, kSpare)) continue;
      const auto lock = OpenOwnFile(absl::StrCat(folder, "/lock"), /*writable=*/true);
      if (lock.ok() && TryLockFile(lock->get())) RemoveTree(folder);
    }
    BULKHEAD_RETURN_IF_ERROR(MakeDirectories(spare_folder_));
    BULKHEAD_ASSIGN_OR_RETURN(UniqueFd lock, CreateUnnamedFile(spare_folder_));
    if (!TryLockFile(lock.get())) return absl::InternalError("a new file is locked");
    BULKHEAD_RETURN_IF_ERROR(NameFile(lock.get(), absl::StrCat(spare_folder_, "/lock")));
    spare_lock_ = std::move(lock);
    return absl::OkStatus();
  }

  void Send(const internal::v1::ToFetch& message, const SharedFd& fd = nullptr) {
    if (!socket_.has_value()) return;  // sent when it starts
    Queued next{message.SerializeAsString(), fd};
    if (queue_.empty() && TrySend(next)) return;
    queue_.push_back(std::move(next));
    (void)loop_->WatchWritable(socket_->fd(), [this] { SendQueued(); });
  }

  // False if the process has yet to read others.
  bool TrySend(const Queued& next) const {
    std::vector<int> fds;
    if (next.fd != nullptr) fds.push_back(next.fd->get());
    return !absl::IsUnavailable(socket_->Send(next.bytes, fds, /*wait=*/false));
  }

  void SendQueued() {
    while (!queue_.empty()) {
      if (!TrySend(queue_.front())) return;
      queue_.pop_front();
    }
    loop_->UnwatchWritable(socket_->fd());
  }

  void Receive() {
    while (socket_.has_value()) {
      const absl::StatusOr<Packet> packet = socket_->Receive(/*wait=*/false);
      if (absl::IsUnavailable(packet.status())) return;
      internal::v1::FromFetch message;
      if (packet.ok() && message.ParseFromString(packet->bytes)) {
        OnMessage(message);
        continue;
      }
      // Closed, or broken: its exit says more.
      loop_->Unwatch(socket_->fd());
      socket_.reset();
      queue_.clear();
      if (!absl::IsOutOfRange(packet.status()) && child_.has_value()) child_->Signal(SIGKILL);
    }
  }

  void OnMessage(const internal::v1::FromFetch& message) {
    if (message.has_counts()) return NoteCounts(message.counts());
    if (message.has_begun()) {
      unusable_ = absl::OkStatus();
      if (message.begun().has_error()) unusable_ = StatusFromWorkerError(message.begun().error());
      if (!unusable_.ok()) FailAll(unusable_);
      return;
    }
    if (message.has_listed()) return OnListed(message.listed());
    if (message.has_found()) return OnAnswer(message.found(), message);
    if (message.has_fetched()) {
      NoteCounts(message.fetched().counts());
      return OnAnswer(message.fetched(), message);
    }
    if (message.has_put()) return OnAnswer(message.put(), message);
  }

  void NoteCounts(const internal::v1::FetchCounts& counts) {
    absl::MutexLock lock(&counts_mutex_);
    counts_ = counts;
  }

  void OnListed(const internal::v1::ObjectsListed& answer) {
    deaths_ = 0;
    const auto request = requests_.find(answer.id());
    if (request == requests_.end() || request->second.listed == nullptr) return;  // released
    const Listed listed = request->second.listed;
    if (answer.has_error()) {
      requests_.erase(request);
      return listed(StatusFromWorkerError(answer.error()));
    }
    if (!answer.key().empty()) requests_.erase(request);
    listed(answer);
  }

  // `answer` is the one that `message` has.
  template <typename Reply>
  void OnAnswer(const Reply& answer, const internal::v1::FromFetch& message) {
    const auto request = requests_.find(answer.id());
    if (request == requests_.end()) return;  // released
    // What was answered is asked for again after each death.
    if (!request->second.answered) deaths_ = 0;
    const absl::Status error =
        answer.has_error() ? StatusFromWorkerError(answer.error()) : absl::OkStatus();
    if (message.has_found() && request->second.found != nullptr) {
      const Found found = std::move(request->second.found);
      requests_.erase(request);
      if (!error.ok()) return found(error);
      return found(message.found());
    }
    if (request->second.done == nullptr) return;
    if (message.has_put()) {
      const Done done = std::move(request->second.done);
      requests_.erase(request);
      return done(error);
    }
    if (!std::exchange(request->second.answered, true)) request->second.done(error);
  }

  void OnExit() {
    const std::optional<ProcessExit> exit = child_->TryReap();
    if (!exit.has_value()) return;
    Receive();
    loop_->Unwatch(child_->pidfd());
    child_.reset();
    if (socket_.has_value()) loop_->Unwatch(socket_->fd());
    socket_.reset();
    queue_.clear();
    {
      const internal::v1::FetchCounts sum = counts();
      absl::MutexLock lock(&counts_mutex_);
      past_ = sum;
      counts_.reset();
    }
    const bool by_signal = exit->outcome == ProcessExit::Outcome::kSignaled;
    OnEnd(absl::StrCat(by_signal ? "killed by signal " : "exited with code ", exit->code));
  }

  // There is no process now.
  void OnEnd(const std::string& how) {
    ++deaths_;
    ++restarts_;
    spdlog::warn("bulkhead-fetch ended ({}); another one does its work", how);
    if (deaths_ >= kMostDeaths) {
      FailAll(MakeError(absl::StatusCode::kUnavailable, reason::kFileUnreadable,
                        absl::StrCat("bulkhead-fetch, which reads object stores, ended ", deaths_,
                                     " times in a row; the last time: ", how)));
    }
    const absl::Duration wait = std::min(kMostBackoff, kFirstBackoff * (1 << std::min(deaths_, 7)));
    loop_->After(wait, [this] { Spawn(); });
  }

  void FailAll(const absl::Status& status) {
    for (auto& [id, request] : std::exchange(requests_, {})) {
      if (request.found != nullptr) request.found(status);
      if (request.listed != nullptr) request.listed(status);
      if (request.done != nullptr && !request.answered) request.done(status);
    }
  }

  // The loop has stopped.
  void Close() {
    if (!child_.has_value()) return;
    child_->Signal(SIGKILL);
    socket_.reset();
    while (!child_->TryReap().has_value()) absl::SleepFor(absl::Milliseconds(1));
  }

  const Config config_;
  const std::unique_ptr<EventLoop> loop_;
  const std::string blocks_folder_;
  const std::string spare_folder_;
  std::atomic<uint64_t> next_id_{1};
  std::atomic<uint64_t> restarts_{0};
  // The following belong to the loop's thread.
  UniqueFd spare_lock_;
  std::vector<uint64_t> inodes_;  // of the folders of this process
  std::optional<ChildProcess> child_;
  std::optional<PacketSocket> socket_;
  std::deque<Queued> queue_;  // for a process that does not read
  std::map<uint64_t, Request> requests_;
  absl::Status unusable_;
  int deaths_ = 0;  // since an answer that was new
  mutable absl::Mutex counts_mutex_;
  // Of this process, if it has told any, and of those before it.
  std::optional<internal::v1::FetchCounts> counts_ ABSL_GUARDED_BY(counts_mutex_);
  internal::v1::FetchCounts past_ ABSL_GUARDED_BY(counts_mutex_);
  std::thread thread_;
};

// Which objects and tables are in use, by key. Thread-safe.
class ObjectFetcher::Uses : public std::enable_shared_from_this<Uses> {
 public:
  // Keeps a table that was listed, by the lock that `file` has: no other service removes it.
  void Hold(const std::string& key, UniqueFd file) {
    absl::MutexLock lock(&mutex_);
    tables_[key] = std::move(file);
    listed_.push_back(key);
    if (listed_.size() <= kMostListed) return;
    // Its opening has failed, or takes very long.
    const std::string oldest = listed_.front();
    listed_.pop_front();
    if (counts_.count(oldest) == 0) Drop({oldest});
  }

  std::shared_ptr<void> Add(std::vector<std::string> keys) {
    {
      absl::MutexLock lock(&mutex_);
      for (const std::string& key : keys) {
        ++counts_[key];
        const auto listed = std::find(listed_.begin(), listed_.end(), key);
        if (listed != listed_.end()) listed_.erase(listed);
      }
    }
    const auto use = std::make_shared<std::vector<std::string>>(std::move(keys));
    return {use.get(), [use, uses = shared_from_this()](void*) { uses->Remove(*use); }};
  }

  // Null from the process's end on.
  void SetProcess(Process* process) {
    absl::MutexLock lock(&mutex_);
    process_ = process;
  }

 private:
  static constexpr size_t kMostListed = 64;

  void Remove(const std::vector<std::string>& keys) {
    absl::MutexLock lock(&mutex_);
    std::vector<std::string> unused;
    for (const std::string& key : keys) {
      if (--counts_[key] > 0) continue;
      counts_.erase(key);
      if (std::find(listed_.begin(), listed_.end(), key) == listed_.end()) unused.push_back(key);
    }
    Drop(unused);
  }

  void Drop(const std::vector<std::string>& keys) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (const std::string& key : keys) tables_.erase(key);
    if (process_ != nullptr && !keys.empty()) process_->CloseObjects(keys);
  }

  absl::Mutex mutex_;
  std::map<std::string, size_t> counts_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, UniqueFd> tables_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> listed_ ABSL_GUARDED_BY(mutex_);  // for a stream that is not open yet
  Process* process_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

ObjectFetcher::ObjectFetcher(Config config)
    : config_(std::move(config)), uses_(std::make_shared<Uses>()) {}

ObjectFetcher::~ObjectFetcher() { uses_->SetProcess(nullptr); }

std::shared_ptr<void> ObjectFetcher::Use(std::vector<std::string> keys) {
  return uses_->Add(std::move(keys));
}

absl::StatusOr<ObjectFetcher::Process*> ObjectFetcher::Started() {
  absl::MutexLock lock(&mutex_);
  if (process_ == nullptr) {
    if (config_.admit && admission_ == nullptr) {
      BULKHEAD_ASSIGN_OR_RETURN(admission_, config_.admit());
    }
    BULKHEAD_ASSIGN_OR_RETURN(process_, Process::Create(config_));
    uses_->SetProcess(process_.get());
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
  BULKHEAD_ASSIGN_OR_RETURN(Process* const process, Started());
  struct Finding {
    uint64_t id = 0;
    std::shared_ptr<Answer> answer = std::make_shared<Answer>();
    std::shared_ptr<internal::v1::ObjectsFound> found =
        std::make_shared<internal::v1::ObjectsFound>();
  };
  std::vector<Finding> findings(patterns.size());
  for (size_t i = 0; i < patterns.size(); ++i) {
    findings[i].id =
        process->Find(patterns[i], [done = findings[i].answer->Take(), found = findings[i].found](
                                       const absl::StatusOr<internal::v1::ObjectsFound>& answer) {
          if (answer.ok()) *found = *answer;
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
      files.push_back(process->Resolve(object));
    }
    results.emplace_back(std::move(files));
  }
  return results;
}

absl::StatusOr<internal::v1::TableOfObjects> ObjectFetcher::List(
    internal::v1::ListObjects list, SharedFd urls,
    const std::function<void(uint64_t objects)>& progress, const std::function<bool()>& cancelled) {
  BULKHEAD_ASSIGN_OR_RETURN(Process* const process, Started());
  struct Told {
    std::atomic<uint64_t> objects{0};
    std::string key;
  };
  const auto answer = std::make_shared<Answer>();
  const auto told = std::make_shared<Told>();
  const uint64_t id = process->List(
      std::move(list), std::move(urls),
      [done = answer->Take(), told](const absl::StatusOr<internal::v1::ObjectsListed>& listed) {
        if (listed.ok()) {
          told->objects = listed->objects();
          told->key = listed->key();
        }
        if (!listed.ok() || !told->key.empty()) done(listed.status());
      });
  const bool is_here = answer->Await([&] {
    progress(told->objects);
    return cancelled();
  });
  if (!is_here) {
    process->Release(id);
    return CallerHasGone();
  }
  BULKHEAD_RETURN_IF_ERROR(answer->status);
  internal::v1::TableOfObjects table = process->TableOf(told->key);
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
  const absl::StatusOr<Process*> process = Started();
  if (process.ok()) return (*process)->Fetch(parts, trust, std::move(done));
  done(process.status());
  return 0;
}

void ObjectFetcher::Release(uint64_t id) {
  if (const absl::StatusOr<Process*> process = Started(); process.ok()) (*process)->Release(id);
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
  BULKHEAD_ASSIGN_OR_RETURN(Process* const process, Started());
  const auto answer = std::make_shared<Answer>();
  const uint64_t id = process->Put(url, std::move(content), answer->Take());
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
