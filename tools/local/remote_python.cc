#include "tools/local/remote_python.h"

#include <google/protobuf/util/json_util.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "server/base/element_type.h"
#include "server/base/error.h"
#include "server/base/little_endian.h"
#include "server/os/files/filesystem.h"
#include "server/os/process/worker_environment.h"
#include "server/os/sockets/seqpacket.h"
#include "server/spec/signature.h"

namespace bulkhead::tools {
namespace {

constexpr size_t kFirstWords = 4;  // those of PythonFunction::BeginWords
constexpr size_t kMaxReplyBytes = 16384;
constexpr uint64_t kAlignment = 64;
// Of the shared memory: only what is touched takes room. Made at once, because a process in the
// sandbox can neither make nor enlarge it.
constexpr uint64_t kMemoryBytes = uint64_t{64} << 30;
constexpr int kEndMillis = 2000;

uint64_t Aligned(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

absl::StatusOr<std::string> FindProgram(const std::string& asked) {
  const std::string name = asked.empty() ? "python3" : asked;
  if (name.find('/') != std::string::npos) return std::filesystem::absolute(name).string();
  const char* path = std::getenv("PATH");
  for (const auto& folder : absl::StrSplit(path == nullptr ? "" : path, ':', absl::SkipEmpty())) {
    const std::string program = absl::StrCat(folder, "/", name);
    if (access(program.c_str(), X_OK) == 0) return program;
  }
  return absl::NotFoundError(
      absl::StrCat("there is no ", name, " in PATH; name an interpreter with --python PROGRAM"));
}

// The bytes that an output may take; `rows` are those of a batch.
uint64_t OutputBytes(const v1::StageOutput& output, int64_t rows) {
  if (output.dtype() == v1::DTYPE_BYTES) return output.max_count();
  uint64_t bytes = ElementBytes(output.dtype());
  for (const int64_t extent : output.shape()) {
    bytes *= extent >= 0
                 ? static_cast<uint64_t>(extent)
                 : (output.max_count() > 0 ? output.max_count() : static_cast<uint64_t>(rows));
  }
  return bytes;
}

}  // namespace

RemotePython::RemotePython(ChildProcess child, UniqueFd socket, MemoryMap memory)
    : child_(std::move(child)), socket_(std::move(socket)), memory_(std::move(memory)) {}

RemotePython::~RemotePython() {
  socket_ = UniqueFd();  // by which it ends, too, where signals are denied
  child_.Signal(SIGKILL);
  pollfd ended = {child_.pidfd(), POLLIN, 0};
  poll(&ended, 1, kEndMillis);
  child_.TryReap();
}

absl::StatusOr<std::unique_ptr<RemotePython>> RemotePython::Start(const Options& options) {
  BULKHEAD_ASSIGN_OR_RETURN(const std::string own, ProgramPath());
  const std::filesystem::path libraries = std::filesystem::path(own).parent_path() / "../lib";
  const std::string host = (libraries / "bulkhead/worker_host.py").string();
  if (access(host.c_str(), R_OK) != 0) {
    return absl::NotFoundError(
        absl::StrCat("Python stages need ", host, ", which is not there; install it"));
  }
  SpawnSpec spec;
  BULKHEAD_ASSIGN_OR_RETURN(spec.program, FindProgram(options.interpreter));
  spec.args = {"-B", host, absl::StrCat("--serve-fd=", ChildProcess::kPassedFd),
               "--library=" + (libraries / "libbulkhead_worker.so").string()};
  for (const std::string& folder : options.python_paths) {
    BULKHEAD_ASSIGN_OR_RETURN(const std::string real, RealPath(folder));
    spec.args.push_back("--python-path=" + real);
  }
  BULKHEAD_ASSIGN_OR_RETURN(const std::vector<std::string> asked, AskedEnvironment({}));
  std::vector<std::string> variables = PythonVariables();
  variables.insert(variables.end(), asked.begin(), asked.end());
  AddScratch(options.confinement.bind.sandbox().scratch(), variables);
  spec.environment = WorkerEnvironment(variables);
  spec.inherits_environment = false;
  BULKHEAD_ASSIGN_OR_RETURN(const UniqueFd memory_fd,
                            CreateSharedMemory("bulkhead-python", kMemoryBytes));
  BULKHEAD_ASSIGN_OR_RETURN(MemoryMap memory, MemoryMap::Map(memory_fd.get(), kMemoryBytes));
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) {
    return absl::UnavailableError(absl::StrCat("no socket pair: ", std::strerror(errno)));
  }
  UniqueFd ours(fds[0]);
  UniqueFd theirs(fds[1]);
  spec.passed_fd = theirs.get();
  BULKHEAD_ASSIGN_OR_RETURN(ChildProcess child, ChildProcess::Spawn(spec));
  theirs = UniqueFd();
  std::unique_ptr<RemotePython> python(
      new RemotePython(std::move(child), std::move(ours), std::move(memory)));
  const std::string bind = options.confinement.bind.SerializeAsString();
  std::string request;
  AppendLittle<uint32_t>(request, static_cast<uint32_t>(bind.size()));
  absl::StrAppend(&request, bind, options.confinement.binding.SerializeAsString());
  BULKHEAD_RETURN_IF_ERROR(python->Ask(request, memory_fd.get()).status());
  return python;
}

absl::StatusOr<RemotePython::Reply> RemotePython::Ask(const std::string& request, int passed_fd) {
  const absl::Status gone = MakeError(absl::StatusCode::kFailedPrecondition, reason::kStageUnusable,
                                      "the interpreter has ended");
  if (!SendSeqPacket(socket_.get(), request, passed_fd).ok()) return gone;
  std::string reply(kMaxReplyBytes, '\0');
  ssize_t length = -1;
  do {
    length = recv(socket_.get(), reply.data(), reply.size(), 0);
  } while (length < 0 && errno == EINTR);
  if (length < static_cast<ssize_t>(sizeof(int32_t))) return gone;
  reply.resize(static_cast<size_t>(length));
  return Reply{LoadLittle<int32_t>(reply.data()), reply.substr(sizeof(int32_t))};
}

absl::StatusOr<int> RemotePython::Load(const std::string& stage,
                                       const std::vector<std::string>& inputs) {
  v1::Python spec;
  if (!google::protobuf::util::JsonStringToMessage(stage, &spec).ok()) {
    return absl::InternalError("a stage cannot be read back");
  }
  std::string request = "L";
  AppendLittle<uint32_t>(request, static_cast<uint32_t>(stage.size()));
  BULKHEAD_ASSIGN_OR_RETURN(const Reply reply,
                            Ask(absl::StrCat(request, stage, absl::StrJoin(inputs, ","))));
  if (reply.verdict <= 0) {
    return MakeError(absl::StatusCode::kFailedPrecondition, reason::kStageUnusable, reply.text);
  }
  Shape shape;
  for (const std::string& input : inputs) {
    const std::vector<std::string> parts = absl::StrSplit(input, '/');
    int dimensions = 0;
    if (parts.size() == 2) (void)absl::SimpleAtoi(parts[1], &dimensions);
    shape.dimensions.push_back(dimensions);
  }
  shape.outputs.assign(spec.outputs().begin(), spec.outputs().end());
  shapes_.resize(std::max<size_t>(shapes_.size(), static_cast<size_t>(reply.verdict)));
  shapes_[static_cast<size_t>(reply.verdict) - 1] = std::move(shape);
  return reply.verdict - 1;
}

std::vector<RemotePython::Piece> RemotePython::PiecesOf(const Shape& shape,
                                                        const std::vector<int64_t>& words) {
  std::vector<Piece> pieces;
  uint64_t offset = Aligned(words.size() * sizeof(int64_t));
  const auto add = [&](size_t word, uint64_t bytes, bool is_output) {
    pieces.push_back({word, bytes, offset, is_output});
    offset += Aligned(bytes);
  };
  size_t at = kFirstWords;
  for (const int dimensions : shape.dimensions) {
    add(at, static_cast<uint64_t>(words[at + 1]), false);
    at += 3 + static_cast<size_t>(dimensions);
  }
  for (const v1::StageOutput& output : shape.outputs) {
    add(at, OutputBytes(output, words[at + 1]), true);
    at += 2;
  }
  return pieces;
}

PythonHost::Verdict RemotePython::Call(int number, std::vector<int64_t>& words,
                                       std::string& error) {
  const std::vector<Piece> pieces = PiecesOf(shapes_[static_cast<size_t>(number)], words);
  if (pieces.back().offset + pieces.back().bytes > memory_.size()) return Verdict::kOutOfMemory;
  // In the shared memory's own terms an address is an offset.
  std::vector<int64_t> remote = words;
  for (const Piece& piece : pieces) {
    if (!piece.is_output && piece.bytes > 0) {
      std::memcpy(memory_.data() + piece.offset, reinterpret_cast<const void*>(words[piece.word]),
                  piece.bytes);
    }
    remote[piece.word] = static_cast<int64_t>(piece.offset);
  }
  const size_t words_bytes = words.size() * sizeof(int64_t);
  std::memcpy(memory_.data(), remote.data(), words_bytes);
  std::string request = "C";
  AppendLittle<int32_t>(request, number);
  const absl::StatusOr<Reply> reply = Ask(request);
  if (!reply.ok()) {
    error = std::string(reply.status().message());
    return Verdict::kUnusable;
  }
  const auto verdict = static_cast<Verdict>(reply->verdict);
  error = reply->text;
  if (verdict != Verdict::kOk) return verdict;
  std::memcpy(remote.data(), memory_.data(), words_bytes);
  for (const Piece& piece : pieces) {
    if (!piece.is_output) continue;
    std::memcpy(reinterpret_cast<void*>(words[piece.word]), memory_.data() + piece.offset,
                piece.bytes);
    words[piece.word + 1] = remote[piece.word + 1];
  }
  return verdict;
}

}  // namespace bulkhead::tools
