#include "tools/pack/confined_images.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "server/arena/worker_error.h"
#include "server/base/error.h"
#include "server/os/files/fd.h"
#include "server/os/files/filesystem.h"
#include "server/os/process/child_process.h"
#include "server/os/process/worker_environment.h"
#include "server/worker/worker_sandbox.h"
#include "tools/local/confinement.h"

namespace bulkhead::tools {
namespace {

constexpr int kPatienceMillis = 60'000;
constexpr int kWorkerEndMillis = 2000;
// More than any image and any JPEG of one has here. What a process in the sandbox says is
// untrusted.
constexpr uint64_t kMostBytes = uint64_t{1} << 31;

// Both ends are the same program, so numbers go as they lie in memory.
struct Request {
  bool recode = false;  // else: look
  Recoding recoding;
  uint64_t file_bytes = 0;  // that follow
};
struct Reply {
  bool ok = false;
  ImageLook look;
  bool is_kept = true;
  double scale_x = 1;
  double scale_y = 1;
  uint64_t more_bytes = 0;  // that follow: a JPEG or, if not ok, an internal.v1.WorkerError
};

// Calls `move` whenever the socket is ready for `event`, until it has moved `size` bytes; false if
// the other end hung up or did nothing for `patience_millis`.
bool MoveAll(int fd, int16_t event, size_t size, int patience_millis,
             absl::FunctionRef<ssize_t(size_t done)> move) {
  for (size_t done = 0; done < size;) {
    pollfd ready = {fd, event, 0};
    const int polled = poll(&ready, 1, patience_millis);
    if (polled < 0 && errno == EINTR) continue;
    if (polled <= 0) return false;
    const ssize_t moved = move(done);
    if (moved < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (moved <= 0) return false;
    done += static_cast<size_t>(moved);
  }
  return true;
}

bool SendAll(int fd, absl::string_view bytes, int patience_millis) {
  return MoveAll(fd, POLLOUT, bytes.size(), patience_millis, [&](size_t done) {
    return send(fd, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL | MSG_DONTWAIT);
  });
}

bool ReceiveAll(int fd, char* to, size_t size, int patience_millis) {
  return MoveAll(fd, POLLIN, size, patience_millis,
                 [&](size_t done) { return recv(fd, to + done, size - done, MSG_DONTWAIT); });
}

template <typename Message>
absl::string_view BytesOf(const Message& message) {
  static_assert(std::is_trivially_copyable_v<Message>);
  return {reinterpret_cast<const char*>(&message), sizeof(message)};
}

template <typename Message>
bool ReceiveMessage(int fd, Message& message, int patience_millis) {
  static_assert(std::is_trivially_copyable_v<Message>);
  return ReceiveAll(fd, reinterpret_cast<char*>(&message), sizeof(message), patience_millis);
}

class ConfinedImageWork final : public ImageWork {
 public:
  ConfinedImageWork(ChildProcess child, UniqueFd socket)
      : child_(std::move(child)), socket_(std::move(socket)) {}
  ~ConfinedImageWork() override {
    socket_ = UniqueFd();
    child_.Signal(SIGKILL);
    pollfd ended = {child_.pidfd(), POLLIN, 0};
    poll(&ended, 1, kWorkerEndMillis);
    child_.TryReap();
  }

  absl::StatusOr<ImageLook> Look(absl::string_view file) override {
    std::string none;
    BULKHEAD_ASSIGN_OR_RETURN(const Reply reply, Ask({.file_bytes = file.size()}, file, none));
    return reply.look;
  }

  absl::StatusOr<RecodedImage> Recode(absl::string_view file, const Recoding& recoding) override {
    RecodedImage image;
    BULKHEAD_ASSIGN_OR_RETURN(
        const Reply reply,
        Ask({.recode = true, .recoding = recoding, .file_bytes = file.size()}, file, image.file));
    image.is_kept = reply.is_kept;
    image.scale_x = reply.scale_x;
    image.scale_y = reply.scale_y;
    return image;
  }

 private:
  absl::StatusOr<Reply> Ask(const Request& request, absl::string_view file, std::string& more) {
    Reply reply;
    if (!SendAll(socket_.get(), BytesOf(request), kPatienceMillis) ||
        !SendAll(socket_.get(), file, kPatienceMillis) ||
        !ReceiveMessage(socket_.get(), reply, kPatienceMillis) || reply.more_bytes > kMostBytes) {
      return NoAnswer();
    }
    more.resize(reply.more_bytes);
    if (!ReceiveAll(socket_.get(), more.data(), more.size(), kPatienceMillis)) return NoAnswer();
    if (reply.ok) return reply;
    internal::v1::WorkerError error;
    if (!error.ParseFromString(more)) return NoAnswer();
    return StatusFromWorkerError(error);
  }

  absl::Status NoAnswer() {
    pollfd ended = {child_.pidfd(), POLLIN, 0};
    poll(&ended, 1, kWorkerEndMillis);
    const std::optional<ProcessExit> exit = child_.TryReap();
    return absl::AbortedError(
        !exit.has_value() ? "the process that decodes it gave no answer for a minute"
        : exit->outcome == ProcessExit::Outcome::kSignaled
            ? absl::StrCat("the process that decodes it was ended by signal ", exit->code)
            : absl::StrCat("the process that decodes it ended with exit code ", exit->code));
  }

  ChildProcess child_;
  UniqueFd socket_;
};

// The answer to one request, and what follows it.
Reply Answer(const Request& request, absl::string_view file, ImageWork& work, std::string& more) {
  Reply reply;
  absl::Status status;
  if (request.recode) {
    absl::StatusOr<RecodedImage> image = work.Recode(file, request.recoding);
    status = image.status();
    if (image.ok()) {
      reply.is_kept = image->is_kept;
      reply.scale_x = image->scale_x;
      reply.scale_y = image->scale_y;
      more = std::move(image->file);
    }
  } else {
    const absl::StatusOr<ImageLook> look = work.Look(file);
    status = look.status();
    if (look.ok()) reply.look = *look;
  }
  reply.ok = status.ok();
  if (!status.ok()) more = ToWorkerError(status).SerializeAsString();
  reply.more_bytes = more.size();
  return reply;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ImageWork>> NewConfinedImageWork(const std::string& sandbox,
                                                                uint64_t max_pixels) {
  BULKHEAD_RETURN_IF_ERROR(Confinement::Of({.sandbox = sandbox}, "").status());
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
    return absl::UnavailableError(absl::StrCat("no socket pair: ", std::strerror(errno)));
  }
  UniqueFd ours(fds[0]);
  const UniqueFd theirs(fds[1]);
  SpawnSpec spec;
  BULKHEAD_ASSIGN_OR_RETURN(spec.program, ProgramPath());
  spec.args = {"pack",
               "-",
               "-",
               kServeImages,
               sandbox.empty() ? "all" : sandbox,
               "--max-pixels",
               absl::StrCat(max_pixels)};
  BULKHEAD_ASSIGN_OR_RETURN(const std::vector<std::string> variables, AskedEnvironment({}));
  spec.environment = WorkerEnvironment(variables);
  spec.inherits_environment = false;
  spec.passed_fd = theirs.get();
  BULKHEAD_ASSIGN_OR_RETURN(ChildProcess child, ChildProcess::Spawn(spec));
  return std::make_unique<ConfinedImageWork>(std::move(child), std::move(ours));
}

int ServeImages(const std::string& sandbox, uint64_t max_pixels) {
  const auto confinement = Confinement::Of({.sandbox = sandbox}, "");
  if (!confinement.ok()) return 1;
  internal::v1::PipelineBinding nothing;  // to be read
  nothing.mutable_source()->mutable_range();
  EnterPipelineSandbox(confinement->bind, nothing, {});
  const std::unique_ptr<ImageWork> work = NewLocalImageWork(max_pixels);
  constexpr int kForever = -1;  // the tool may wait for its disk
  std::string file;
  for (Request request; ReceiveMessage(ChildProcess::kPassedFd, request, kForever);) {
    file.resize(request.file_bytes);
    if (!ReceiveAll(ChildProcess::kPassedFd, file.data(), file.size(), kForever)) return 1;
    std::string more;
    const Reply reply = Answer(request, file, *work, more);
    if (!SendAll(ChildProcess::kPassedFd, BytesOf(reply), kForever) ||
        !SendAll(ChildProcess::kPassedFd, more, kForever)) {
      return 1;
    }
  }
  return 0;
}

}  // namespace bulkhead::tools
