#include "server/data/fetch_child.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/arena/worker_error.h"
#include "server/base/error.h"
#include "server/os/process/thread.h"

namespace bulkhead {
namespace {

constexpr absl::Duration kFirstBackoff = absl::Milliseconds(50);
constexpr absl::Duration kMostBackoff = absl::Seconds(5);
// Deaths without a new answer in between, after which what is asked for fails.
constexpr int kMostDeaths = 8;

// Of a process that has told none yet: nothing was done, and what lies on the disk stays.
internal::v1::FetchCounts FetchCountsOfNone(const internal::v1::FetchCounts& past) {
  internal::v1::FetchCounts counts;
  counts.set_cached_bytes(past.cached_bytes());
  counts.set_spare_bytes(past.spare_bytes());
  return counts;
}

}  // namespace

absl::StatusOr<std::unique_ptr<FetchChild>> FetchChild::Create(const Config& config) {
  BULKHEAD_ASSIGN_OR_RETURN(auto loop, EventLoop::Create());
  std::unique_ptr<FetchChild> child(new FetchChild(config, std::move(loop)));
  const auto run = [raw = child.get()] {
    raw->Spawn();
    raw->loop_->Run();
    raw->Close();
  };
  BULKHEAD_RETURN_IF_ERROR(StartThread(run, child->thread_));
  return child;
}

FetchChild::FetchChild(const Config& config, std::unique_ptr<EventLoop> loop)
    : config_(config), loop_(std::move(loop)), folders_(config.folder) {}

FetchChild::~FetchChild() {
  loop_->Stop();
  if (thread_.joinable()) thread_.join();
}

internal::v1::FetchCounts FetchChild::counts() const {
  absl::MutexLock lock(&counts_mutex_);
  internal::v1::FetchCounts sum = counts_.has_value() ? *counts_ : FetchCountsOfNone(past_);
  sum.set_requests(sum.requests() + past_.requests());
  sum.set_retries(sum.retries() + past_.retries());
  sum.set_hedges(sum.hedges() + past_.hedges());
  sum.set_bytes_fetched(sum.bytes_fetched() + past_.bytes_fetched());
  return sum;
}

uint64_t FetchChild::Ask(const std::function<void(uint64_t, internal::v1::ToFetch&)>& fill,
                         Answered answered, SharedFd fd) {
  const uint64_t id = next_id_++;
  FetchRequests::Request request{{}, std::move(fd), std::move(answered)};
  fill(id, request.message);
  loop_->Post([this, id, request = std::move(request)]() mutable {
    const FetchRequests::Request& added = requests_.Add(id, std::move(request));
    if (!unusable_.ok()) return requests_.FailAll(unusable_);
    LookForFolders();
    Send(added.message, added.fd);
  });
  return id;
}

void FetchChild::Release(uint64_t id) {
  loop_->Post([this, id] {
    if (!requests_.Remove(id)) return;
    internal::v1::ToFetch message;
    message.mutable_release()->set_id(id);
    Send(message);
  });
}

void FetchChild::CloseObjects(const std::vector<std::string>& keys) {
  internal::v1::ToFetch message;
  message.mutable_close()->mutable_keys()->Assign(keys.begin(), keys.end());
  loop_->Post([this, message = std::move(message)] { Send(message); });
}

void FetchChild::Spawn() {
  const absl::Status status = TrySpawn();
  if (!status.ok()) OnEnd(std::string(status.message()));
}

absl::Status FetchChild::TrySpawn() {
  BULKHEAD_RETURN_IF_ERROR(folders_.Make());
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
  begin.mutable_begin()->set_folder(folders_.blocks());
  begin.mutable_begin()->set_cache_bytes(config_.cache_bytes);
  begin.mutable_begin()->set_spare_folder(folders_.spare());
  begin.mutable_begin()->set_quota_bytes(config_.quota_bytes);
  *begin.mutable_begin()->mutable_sandbox() = config_.sandbox;
  begin.mutable_begin()->mutable_sandbox()->set_scratch(config_.folder);
  Send(begin);
  for (const auto& [id, request] : requests_.ForAnother()) Send(request.message, request.fd);
  internal::v1::ToFetch rest;
  rest.mutable_forget_rest();
  Send(rest);
  return absl::OkStatus();
}

// Folders that were removed are made again for another process: the sandbox of the one that runs
// holds to those that were there when it began.
void FetchChild::LookForFolders() {
  if (!child_.has_value() || !folders_.HaveChanged()) return;
  spdlog::warn("{}: was removed while it was used; bulkhead-fetch begins again with another one",
               config_.folder);
  child_->Signal(SIGKILL);
}

void FetchChild::Send(const internal::v1::ToFetch& message, const SharedFd& fd) {
  if (!socket_.has_value()) return;  // sent when it starts
  Queued next{message.SerializeAsString(), fd};
  if (queue_.empty() && TrySend(next)) return;
  queue_.push_back(std::move(next));
  (void)loop_->WatchWritable(socket_->fd(), [this] { SendQueued(); });
}

bool FetchChild::TrySend(const Queued& next) const {
  std::vector<int> fds;
  if (next.fd != nullptr) fds.push_back(next.fd->get());
  return !absl::IsUnavailable(socket_->Send(next.bytes, fds, /*wait=*/false));
}

void FetchChild::SendQueued() {
  for (; !queue_.empty(); queue_.pop_front()) {
    if (!TrySend(queue_.front())) return;
  }
  loop_->UnwatchWritable(socket_->fd());
}

void FetchChild::Receive() {
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

void FetchChild::OnMessage(const internal::v1::FromFetch& message) {
  if (message.has_counts()) return NoteCounts(message.counts());
  if (message.has_begun()) {
    unusable_ = absl::OkStatus();
    if (message.begun().has_error()) unusable_ = StatusFromWorkerError(message.begun().error());
    if (!unusable_.ok()) requests_.FailAll(unusable_);
    return;
  }
  if (message.has_fetched()) NoteCounts(message.fetched().counts());
  // What was answered is asked for again after each death.
  if (requests_.Answer(message)) deaths_ = 0;
}

void FetchChild::NoteCounts(const internal::v1::FetchCounts& counts) {
  absl::MutexLock lock(&counts_mutex_);
  counts_ = counts;
}

void FetchChild::OnExit() {
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

void FetchChild::OnEnd(const std::string& how) {
  ++deaths_;
  ++restarts_;
  spdlog::warn("bulkhead-fetch ended ({}); another one does its work", how);
  if (deaths_ >= kMostDeaths) {
    requests_.FailAll(MakeError(absl::StatusCode::kUnavailable, reason::kFileUnreadable,
                                absl::StrCat("bulkhead-fetch, which reads object stores, ended ",
                                             deaths_, " times in a row; the last time: ", how)));
  }
  const absl::Duration wait = std::min(kMostBackoff, kFirstBackoff * (1 << std::min(deaths_, 7)));
  loop_->After(wait, [this] { Spawn(); });
}

// The loop has stopped.
void FetchChild::Close() {
  if (!child_.has_value()) return;
  child_->Signal(SIGKILL);
  socket_.reset();
  while (!child_->TryReap().has_value()) absl::SleepFor(absl::Milliseconds(1));
}

}  // namespace bulkhead
