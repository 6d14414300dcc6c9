#include "server/supervisor/worker/worker_process.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/arena/exit_codes.h"
#include "server/arena/worker_error.h"
#include "server/base/error.h"
#include "server/os/process/worker_environment.h"

namespace bulkhead {

namespace {

// A worker that is busy when it is asked to end is told again, by SIGTERM.
bool EndedAsTold(const ProcessExit& exit, bool told) {
  const bool by_signal = exit.outcome == ProcessExit::Outcome::kSignaled && exit.code == SIGTERM;
  return told && (exit.ok() || by_signal);
}

}  // namespace

std::string DescribeExit(const ProcessExit& exit, bool told) {
  if (EndedAsTold(exit, told)) return "ended as requested";
  if (exit.outcome == ProcessExit::Outcome::kSignaled) {
    return absl::StrCat("killed by signal ", exit.code, " (", sigdescr_np(exit.code), ")");
  }
  switch (exit.code) {
    case 0:
      return "exited with code 0 without being asked to";
    case kExitOutOfMemory:
      return "out of memory under its quota";
    case kExitProtocol:
      return "lost its connection to the service";
    case 127:
      return "exited with code 127: the program could not be loaded, perhaps because a library is "
             "missing";
    default:
      return absl::StrCat("exited with code ", exit.code);
  }
}

v1::ExitCause CauseOf(const ProcessExit& exit, bool told) {
  if (EndedAsTold(exit, told)) return v1::EXIT_CAUSE_TOLD;
  if (exit.outcome == ProcessExit::Outcome::kSignaled) {
    // A program's own faults raise these; all others are sent, as by a terminal that is closed.
    constexpr std::array<int, 9> kOwn = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL,
                                         SIGTRAP, SIGSYS, SIGXCPU, SIGXFSZ};
    const bool own = std::ranges::find(kOwn, exit.code) != kOwn.end();
    return own ? v1::EXIT_CAUSE_CRASHED : v1::EXIT_CAUSE_KILLED;
  }
  if (exit.code == kExitOutOfMemory) return v1::EXIT_CAUSE_OUT_OF_MEMORY;
  return exit.code == kExitProtocol ? v1::EXIT_CAUSE_PROTOCOL : v1::EXIT_CAUSE_CRASHED;
}

absl::StatusOr<std::unique_ptr<WorkerProcess>> WorkerProcess::Start(EventLoop& loop,
                                                                    const WorkerProgram& program,
                                                                    Callbacks callbacks) {
  BULKHEAD_ASSIGN_OR_RETURN(auto pair, PacketSocket::MakePair());
  SpawnSpec spec;
  spec.program = program.path;
  spec.args = program.args;
  spec.args.push_back(absl::StrCat("--control-fd=", ChildProcess::kPassedFd));
  spec.environment = WorkerEnvironment(program.environment);
  spec.inherits_environment = false;
  spec.passed_fd = pair.second.fd();
  UniqueFd output;  // closed here once the worker has it: its end shall be noticed
  if (program.output) {
    BULKHEAD_ASSIGN_OR_RETURN(output, program.output());
    spec.output_fd = output.get();
  }
  spec.oom_score_adj = 500;
  BULKHEAD_ASSIGN_OR_RETURN(ChildProcess child, program.spawner != nullptr
                                                    ? program.spawner->Spawn(spec)
                                                    : ChildProcess::Spawn(spec));
  std::unique_ptr<WorkerProcess> worker(
      new WorkerProcess(loop, std::move(child), std::move(pair.first), std::move(callbacks)));
  WorkerProcess* const raw = worker.get();
  BULKHEAD_RETURN_IF_ERROR(
      loop.Watch(raw->socket_.fd(), [raw] { raw->Receive(kMessagesPerRound); }));
  BULKHEAD_RETURN_IF_ERROR(loop.Watch(raw->child_.pidfd(), [raw] { raw->OnProcessEnd(); }));
  return worker;
}

WorkerProcess::~WorkerProcess() {
  loop_.Cancel(timer_);
  if (socket_open_) loop_.Unwatch(socket_.fd());
  if (phase_ == WorkerPhase::kGone) return;
  loop_.Unwatch(child_.pidfd());
  child_.Signal(SIGKILL);
  // Its owner is gone, but the process must still be reaped.
  auto orphan = std::make_shared<ChildProcess>(std::move(child_));
  (void)loop_.Watch(orphan->pidfd(),
                    [&loop = loop_, orphan, on_exit = std::move(callbacks_.on_orphan_exit)] {
                      const std::optional<ProcessExit> exit = orphan->TryReap();
                      if (!exit.has_value()) return;
                      loop.Unwatch(orphan->pidfd());
                      if (on_exit) on_exit(*exit);
                    });
}

bool WorkerProcess::Apply(WorkerEvent event) {
  const auto next = NextPhase(phase_, event);
  if (!next.has_value()) {
    Kill(v1::EXIT_CAUSE_PROTOCOL, "it broke the protocol");
    return false;
  }
  phase_ = *next;
  return true;
}

void WorkerProcess::Send(const internal::v1::ToWorker& message, const std::vector<int>& fds) {
  if (phase_ == WorkerPhase::kKilled || phase_ == WorkerPhase::kGone || !socket_open_) return;
  std::string bytes = message.SerializeAsString();
  if (queue_.empty()) {
    const absl::Status sent = socket_.Send(bytes, fds, /*wait=*/false);
    if (!absl::IsUnavailable(sent)) {
      SendFailed(sent);
      return;
    }
    const absl::Status watched = loop_.WatchWritable(socket_.fd(), [this] { SendQueued(); });
    if (!watched.ok()) {
      SendFailed(watched);
      return;
    }
  }
  Enqueue(std::move(bytes), fds);
}

void WorkerProcess::SendFailed(const absl::Status& status) {
  // A closed socket means that the worker is ending; its exit says why.
  if (status.ok() || absl::IsFailedPrecondition(status)) return;
  Kill(v1::EXIT_CAUSE_PROTOCOL,
       absl::StrCat("it could not be reached: ", std::string(status.message())));
}

void WorkerProcess::Enqueue(std::string bytes, const std::vector<int>& fds) {
  if (queue_.size() >= kMaxQueuedMessages || queued_bytes_ + bytes.size() > kMaxQueuedBytes) {
    Kill(v1::EXIT_CAUSE_PROTOCOL, "it does not read its messages");
    return;
  }
  Outgoing outgoing;
  queued_bytes_ += bytes.size();
  outgoing.bytes = std::move(bytes);
  for (const int fd : fds) {
    absl::StatusOr<UniqueFd> copy = DuplicateFd(fd);
    if (!copy.ok()) {
      SendFailed(copy.status());
      return;
    }
    outgoing.fds.push_back(*std::move(copy));
  }
  queue_.push_back(std::move(outgoing));
}

void WorkerProcess::SendQueued() {
  while (!queue_.empty()) {
    const Outgoing& next = queue_.front();
    std::vector<int> fds;
    for (const UniqueFd& fd : next.fds) fds.push_back(fd.get());
    const absl::Status sent = socket_.Send(next.bytes, fds, /*wait=*/false);
    if (absl::IsUnavailable(sent)) return;
    SendFailed(sent);
    if (!sent.ok()) break;
    queued_bytes_ -= next.bytes.size();
    queue_.pop_front();
  }
  queue_.clear();
  queued_bytes_ = 0;
  loop_.UnwatchWritable(socket_.fd());
}

void WorkerProcess::Stop(absl::Duration grace) {
  if (phase_ == WorkerPhase::kKilled || phase_ == WorkerPhase::kGone) return;
  Apply(WorkerEvent::kStop);
  told_to_end_ = true;
  internal::v1::ToWorker message;
  message.mutable_shutdown();
  Send(message);
  loop_.Cancel(timer_);
  timer_ = loop_.After(grace, [this] {
    child_.Signal(SIGTERM);
    timer_ = loop_.After(absl::Seconds(1),
                         [this] { Kill(v1::EXIT_CAUSE_TOLD, "it did not end when asked to"); });
  });
}

void WorkerProcess::Kill(v1::ExitCause cause, const std::string& reason) {
  if (phase_ == WorkerPhase::kGone) return;
  if (reason_.empty()) {
    cause_ = cause;
    reason_ = reason;
  }
  phase_ = WorkerPhase::kKilled;
  child_.Signal(SIGKILL);
}

void WorkerProcess::Receive(int max_messages) {
  for (int count = 0; socket_open_ && count < max_messages; ++count) {
    absl::StatusOr<Packet> packet = socket_.Receive(/*wait=*/false, kMaxMessageFromWorker);
    if (absl::IsUnavailable(packet.status())) return;
    if (packet.ok()) {
      HandOver(packet->bytes);
    } else if (absl::IsDataLoss(packet.status())) {
      Kill(v1::EXIT_CAUSE_PROTOCOL,
           absl::StrCat("it broke the protocol: ", std::string(packet.status().message())));
    } else {
      socket_open_ = false;
      loop_.Unwatch(socket_.fd());
      if (!absl::IsOutOfRange(packet.status())) SendFailed(packet.status());
    }
  }
}

void WorkerProcess::HandOver(const std::string& bytes) {
  // Ignore what a killed worker sent: it may be the reason for the kill.
  if (phase_ == WorkerPhase::kKilled) return;
  internal::v1::FromWorker message;
  if (!message.ParseFromString(bytes)) {
    Kill(v1::EXIT_CAUSE_PROTOCOL, "it sent an invalid message");
    return;
  }
  if (message.has_hello()) {
    const bool first = phase_ == WorkerPhase::kStarting;
    if (!Apply(WorkerEvent::kHello) || !first) return;
  }
  MakePrintable(message);
  callbacks_.on_message(message);
}

void WorkerProcess::OnProcessEnd() {
  // Not ended: the event belonged to an earlier descriptor of the same number, closed in this round
  // of the loop.
  const std::optional<ProcessExit> exit = child_.TryReap();
  if (!exit.has_value()) return;
  ended_ = true;
  Receive(std::numeric_limits<int>::max());  // what it finished before its end counts
  loop_.Unwatch(child_.pidfd());
  loop_.Cancel(timer_);
  const bool killed = phase_ == WorkerPhase::kKilled;
  phase_ = WorkerPhase::kGone;
  WorkerEnd end;
  end.exit = *exit;
  end.reason = DescribeExit(*exit, told_to_end_);
  end.cause = reason_.empty() ? CauseOf(*exit, told_to_end_) : cause_;
  if (!reason_.empty()) end.reason += ": " + reason_;
  end.as_told = !killed && EndedAsTold(*exit, told_to_end_);
  callbacks_.on_exit(end);
}

}  // namespace bulkhead
