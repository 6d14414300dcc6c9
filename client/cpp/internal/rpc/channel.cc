#include "client/cpp/internal/rpc/channel.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/create_channel_posix.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/internal/base/error.h"
#include "client/cpp/internal/base/socket_user.h"
#include "client/cpp/internal/rpc/address.h"
#include "client/cpp/internal/rpc/tls.h"

namespace bulkhead::client_internal {
namespace {

// Parts are at most 1 MiB; an answer that repeats a spec may be longer.
constexpr int kMaxMessageBytes = 16 << 20;
// A part of a batch in one frame instead of sixty-four.
constexpr int kFrameBytes = 1 << 20;
// An error's details travel as metadata, where gRPC takes 8 KiB by default: a spec with many
// mistakes has more.
constexpr int kMaxMetadataBytes = 64 << 10;

// The process that made the first channel; 0: none did.
std::atomic<pid_t> channel_process{0};

// gRPC takes the memory of what it receives from malloc and gives it back megabytes at a time.
// glibc then returns that memory to the kernel at once, and taking it again costs as much as
// receiving does (measured: 600,000 page faults for 6 GB, and a third of the rate). It stops doing
// so once it has seen a large block freed, as it takes that for the program's habit
// (M_TRIM_THRESHOLD in mallopt(3)): so one is shown to it, below the 32 MiB that it still learns
// from. It is never touched, so it costs no memory.
bool CalmMalloc() {
  void* volatile block = std::malloc(size_t{31} << 20);
  std::free(block);
  return true;
}

grpc::ChannelArguments MakeArguments() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxRequestBytes);
  arguments.SetInt(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kFrameBytes);
  // Another channel's back-off must not delay this one.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // Batches do not go through a proxy that was meant for web pages.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return arguments;
}

// The words of FromRpcStatus for what gRPC would find itself.
absl::Status NobodyListens(const std::string& target, int error, Caller caller) {
  std::string why = std::strerror(error);
  if (error == EACCES) {
    absl::StrAppend(&why, ": only the user that the service runs as, and root, may connect");
  }
  std::error_code unknown;
  const std::string path = UnixPathOf(target);
  if (std::filesystem::exists(path, unknown) && !std::filesystem::is_socket(path, unknown)) {
    why = "it is no socket";
  }
  return FromRpcStatus(grpc::Status(grpc::StatusCode::UNAVAILABLE, why), target, caller);
}

// gRPC would not show its socket; and between a look of ours and its connecting, another could take
// the place of who listens there.
absl::StatusOr<std::shared_ptr<grpc::Channel>> ConnectUnix(const std::string& target,
                                                           const std::string& path,
                                                           const Credentials& credentials,
                                                           Caller caller) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return NobodyListens(target, ENAMETOOLONG, caller);
  std::memcpy(address.sun_path, path.c_str(), path.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return NobodyListens(target, errno, caller);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    const int error = errno;
    close(fd);
    return NobodyListens(target, error, caller);
  }
  absl::Status trusted = CheckSocketUser(fd, path, credentials.socket_user);
  if (!trusted.ok()) {
    close(fd);
    return trusted;
  }
  return grpc::CreateCustomInsecureChannelFromFd(target, fd, MakeArguments());
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(const std::string& target,
                                                           const Credentials& credentials,
                                                           Caller caller,
                                                           const std::string& authority) {
  channel_process = getpid();
  static const bool calmed = CalmMalloc();
  (void)calmed;
  const std::string path = UnixPathOf(target);
  if (!path.empty()) return ConnectUnix(target, path, credentials, caller);
  // Nor of an abstract socket, since nobody could be asked who listens there.
  BULKHEAD_RETURN_IF_ERROR(CheckAddress(target));
  BULKHEAD_ASSIGN_OR_RETURN(auto made, TcpCredentials(credentials));
  grpc::ChannelArguments arguments = MakeArguments();
  if (!authority.empty()) arguments.SetSslTargetNameOverride(authority);
  return grpc::CreateCustomChannel(target, made, arguments);
}

absl::Status FailureToConnect(const grpc::Status& status, const std::string& target,
                              const Credentials& credentials, Caller caller) {
  absl::Status failure = FromRpcStatus(status, target, caller);
  if (ErrorReason(failure) != client_reason::kServiceUnavailable) return failure;
  if (caller == Caller::kOwnStream || !UnixPathOf(target).empty()) return failure;
  const std::string why = ExplainTls(target, credentials);
  if (why.empty()) return failure;
  return MakeClientError(failure.code(), ErrorReason(failure),
                         absl::StrCat("no connection to the service at ", target, ": ", why),
                         ErrorMetadata(failure));
}

absl::Status CheckNotForked() {
  const pid_t process = channel_process;
  if (process == 0 || process == getpid()) return absl::OkStatus();
  return ForkedError();
}

gpr_timespec GrpcDeadline(absl::Duration allowed) {
  const int64_t allowed_ms = absl::ToInt64Milliseconds(std::min(allowed, absl::Hours(24 * 365)));
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_millis(std::max<int64_t>(allowed_ms, 0), GPR_TIMESPAN));
}

std::string UnixPathOf(const std::string& target) {
  constexpr absl::string_view kScheme = "unix:";
  if (!absl::StartsWith(target, kScheme)) return "";
  const std::string path = target.substr(kScheme.size());
  return absl::StartsWith(path, "//") ? path.substr(2) : path;
}

}  // namespace bulkhead::client_internal
