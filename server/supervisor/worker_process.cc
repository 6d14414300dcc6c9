#include "server/supervisor/worker_process.h"

#include <csignal>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/arena/exit_codes.h"

namespace bulkhead {

std::string DescribeExit(const ProcessExit& exit) {
  if (exit.outcome == ProcessExit::Outcome::kSignaled) {
    return absl::StrCat("killed by signal ", exit.code, " (", sigdescr_np(exit.code), ")");
  }
  switch (exit.code) {
    case 0:
      return "ended as told";
    case kExitOutOfMemory:
      return "out of memory under its quota";
    case kExitProtocol:
      return "lost its supervisor";
    default:
      return absl::StrCat("exited with code ", exit.code);
  }
}

absl::StatusOr<std::unique_ptr<WorkerProcess>> WorkerProcess::Start(EventLoop& loop,
                                                                    const std::string& program,
                                                                    Callbacks callbacks) {
  auto pair = PacketSocket::MakePair();
  if (!pair.ok()) return pair.status();
  SpawnSpec spec;
  spec.program = program;
  spec.args = {absl::StrCat("--control-fd=", ChildProcess::kPassedFd)};
  spec.passed_fd = pair->second.fd();
  spec.oom_score_adj = 500;
  absl::StatusOr<ChildProcess> child = ChildProcess::Spawn(spec);
  if (!child.ok()) return child.status();

  std::unique_ptr<WorkerProcess> worker(
      new WorkerProcess(loop, *std::move(child), std::move(pair->first), std::move(callbacks)));
  WorkerProcess* const raw = worker.get();
  absl::Status watched = loop.Watch(raw->socket_.fd(), [raw] { raw->ReceiveAll(); });
  if (watched.ok()) watched = loop.Watch(raw->child_.pidfd(), [raw] { raw->OnProcessEnd(); });
  if (!watched.ok()) return watched;
  return worker;
}

WorkerProcess::WorkerProcess(EventLoop& loop, ChildProcess child, PacketSocket socket,
                             Callbacks callbacks)
    : loop_(loop),
      child_(std::move(child)),
      socket_(std::move(socket)),
      callbacks_(std::move(callbacks)) {}

WorkerProcess::~WorkerProcess() {
  loop_.Cancel(timer_);
  if (socket_open_) loop_.Unwatch(socket_.fd());
  if (phase_ == WorkerPhase::kGone) return;
  loop_.Unwatch(child_.pidfd());
  child_.Signal(SIGKILL);
  // Nobody waits for it any more, but it must be reaped all the same.
  auto orphan = std::make_shared<ChildProcess>(std::move(child_));
  (void)loop_.Watch(orphan->pidfd(), [&loop = loop_, orphan] {
    const int pidfd = orphan->pidfd();
    if (orphan->TryReap().has_value()) loop.Unwatch(pidfd);
  });
}

bool WorkerProcess::Apply(WorkerEvent event) {
  const auto next = NextPhase(phase_, event);
  if (!next.has_value()) {
    Kill("it broke the protocol");
    return false;
  }
  phase_ = *next;
  return true;
}

void WorkerProcess::Send(const internal::v1::ToWorker& message, const std::vector<int>& fds) {
  if (phase_ == WorkerPhase::kKilled || phase_ == WorkerPhase::kGone) return;
  const absl::Status sent = socket_.Send(message.SerializeAsString(), fds, /*wait=*/false);
  if (sent.ok()) return;
  // A closed socket means that the worker is ending by itself: its own exit says why.
  if (absl::IsFailedPrecondition(sent)) return;
  Kill(absl::StrCat("it could not be reached: ", std::string(sent.message())));
}

void WorkerProcess::Stop(absl::Duration grace) {
  if (phase_ == WorkerPhase::kKilled || phase_ == WorkerPhase::kGone) return;
  Apply(WorkerEvent::kStop);
  internal::v1::ToWorker message;
  message.mutable_shutdown();
  Send(message);
  loop_.Cancel(timer_);
  timer_ = loop_.After(grace, [this] {
    child_.Signal(SIGTERM);
    timer_ = loop_.After(absl::Seconds(1), [this] { Kill("it did not end when told to"); });
  });
}

void WorkerProcess::Kill(const std::string& reason) {
  if (phase_ == WorkerPhase::kGone) return;
  if (reason_.empty()) reason_ = reason;
  phase_ = WorkerPhase::kKilled;
  child_.Signal(SIGKILL);
}

void WorkerProcess::ReceiveAll() {
  while (socket_open_) {
    absl::StatusOr<Packet> packet = socket_.Receive(/*wait=*/false);
    if (absl::IsUnavailable(packet.status())) return;
    if (!packet.ok()) {
      socket_open_ = false;
      loop_.Unwatch(socket_.fd());
      if (!absl::IsOutOfRange(packet.status())) {
        Kill(absl::StrCat("it broke the protocol: ", std::string(packet.status().message())));
      }
      return;
    }
    internal::v1::FromWorker message;
    if (!message.ParseFromString(packet->bytes)) {
      Kill("it sent a message that is not one");
      return;
    }
    if (message.has_hello() && !Apply(WorkerEvent::kHello)) return;
    callbacks_.on_message(message);
  }
}

void WorkerProcess::OnProcessEnd() {
  ReceiveAll();  // what it finished before its end counts
  const int pidfd = child_.pidfd();
  const std::optional<ProcessExit> exit = child_.TryReap();
  // Not ended: the event was one of an earlier descriptor of the same number, closed in this very
  // round of the loop.
  if (!exit.has_value()) return;
  loop_.Unwatch(pidfd);
  loop_.Cancel(timer_);
  phase_ = WorkerPhase::kGone;
  callbacks_.on_exit(*exit, reason_.empty() ? DescribeExit(*exit)
                                            : absl::StrCat(DescribeExit(*exit), ": ", reason_));
}

}  // namespace bulkhead
