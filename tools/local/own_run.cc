#include "tools/local/own_run.h"

#include <fcntl.h>
#include <poll.h>

#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "bulkhead/internal/v1/fetch.pb.h"
#include "client/cpp/internal/service/embedded_options.h"
#include "server/arena/worker_error.h"
#include "server/base/error.h"
#include "server/os/files/fd.h"
#include "server/os/files/filesystem.h"
#include "server/os/process/child_process.h"
#include "server/os/process/worker_environment.h"
#include "server/os/sockets/packet_socket.h"
#include "tools/local/temporary_folder.h"

namespace bulkhead::tools {
namespace {

// What a message of a run begins with. The rest is the result, or an internal.v1.WorkerError; a
// letter for the trust and an internal.v1.Surveyed, whose sequence is the request's number; that
// number.
constexpr char kResult = 'R';
constexpr char kError = 'E';
constexpr char kFetch = 'F';
constexpr char kRelease = 'L';
// What a message to it begins with. The rest is an internal.v1.ResolvedSource; or an
// internal.v1.PartsFetched.
constexpr char kFiles = 'f';
constexpr char kObjects = 'o';
constexpr char kFetched = 'd';
constexpr char kTaken = 't';  // the answer

constexpr uint64_t kMostAnswerBytes = uint64_t{4} << 30;
// Parts that a run holds at a time: more than any of ours does.
constexpr size_t kMostRequests = 1000;

absl::Status NoAnswer(const ProcessExit& exit) {
  return absl::AbortedError(
      exit.outcome == ProcessExit::Outcome::kSignaled
          ? absl::StrCat("a run was ended by signal ", exit.code, "; does a stage crash?")
          : absl::StrCat("a run ended with exit code ", exit.code, "; does a stage end it?"));
}

// Fetches what a run asks for.
class FetchingForRun {
 public:
  FetchingForRun(std::shared_ptr<const FoundObjects> objects,
                 std::shared_ptr<const PacketSocket> socket)
      : objects_(std::move(objects)), socket_(std::move(socket)) {}
  ~FetchingForRun() {
    for (const auto& [number, id] : requests_) objects_->Release(id);
  }
  FetchingForRun(const FetchingForRun&) = delete;
  FetchingForRun& operator=(const FetchingForRun&) = delete;

  // Whatever the run's code may have made of the message.
  void Take(absl::string_view message) {
    if (objects_ == nullptr || message.size() < 2) return;
    internal::v1::Surveyed wanted;
    uint64_t number = 0;
    if (message[0] == kRelease && absl::SimpleAtoi(message.substr(1), &number)) {
      const auto found = requests_.find(number);
      if (found == requests_.end()) return;
      objects_->Release(found->second);
      requests_.erase(found);
    } else if (message[0] == kFetch && requests_.size() < kMostRequests &&
               wanted.ParseFromString(std::string(message.substr(2)))) {
      const auto trust = static_cast<ObjectFetcher::Trust>(message[1] - '0');
      if (!internal::v1::FetchParts::Trust_IsValid(trust)) return;
      if (requests_.count(wanted.sequence()) > 0) return;
      requests_[wanted.sequence()] = objects_->Fetch(
          wanted.objects(), trust,
          [socket = socket_, number = wanted.sequence()](const absl::Status& status) {
            internal::v1::PartsFetched fetched;
            fetched.set_id(number);
            if (!status.ok()) *fetched.mutable_error() = ToWorkerError(status);
            // A run that has ended, or does not read, needs none.
            (void)socket->Send(absl::StrCat(std::string(1, kFetched), fetched.SerializeAsString()),
                               {}, /*wait=*/false);
          });
    }
  }

 private:
  const std::shared_ptr<const FoundObjects> objects_;  // null: all are files
  const std::shared_ptr<const PacketSocket> socket_;
  std::map<uint64_t, uint64_t> requests_;  // by the run's numbers
};

// Asks the process that started this one. For one thread.
class AskingFetcher final : public PartsFetcher {
 public:
  explicit AskingFetcher(PacketSocket socket) : socket_(std::move(socket)) {}

  std::unique_ptr<Request> Fetch(const FoundObjects::Wanted& wanted,
                                 ObjectFetcher::Trust trust) const override {
    internal::v1::Surveyed message;
    message.set_sequence(next_++);
    *message.mutable_objects() = wanted;
    // Await tells of an error.
    (void)socket_.Send(absl::StrCat(std::string(1, kFetch), std::string(1, '0' + trust),
                                    message.SerializeAsString()));
    return std::make_unique<Asked>(*this, message.sequence());
  }

 private:
  class Asked final : public Request {
   public:
    Asked(const AskingFetcher& fetcher, uint64_t number) : fetcher_(fetcher), number_(number) {}
    ~Asked() override {
      (void)fetcher_.socket_.Send(absl::StrCat(std::string(1, kRelease), number_));
      fetcher_.answers_.erase(number_);
    }
    absl::Status Await() override { return fetcher_.Await(number_); }

   private:
    const AskingFetcher& fetcher_;
    const uint64_t number_;
  };

  absl::Status Await(uint64_t number) const {
    while (answers_.count(number) == 0) {
      BULKHEAD_ASSIGN_OR_RETURN(const Packet packet, socket_.Receive());
      internal::v1::PartsFetched fetched;
      if (packet.bytes.empty() || packet.bytes[0] != kFetched ||
          !fetched.ParseFromString(packet.bytes.substr(1))) {
        return absl::InternalError("an answer to a run cannot be read");
      }
      answers_[fetched.id()] =
          fetched.has_error() ? StatusFromWorkerError(fetched.error()) : absl::OkStatus();
    }
    return answers_[number];
  }

  const PacketSocket socket_;
  mutable uint64_t next_ = 0;
  mutable std::map<uint64_t, absl::Status> answers_;
};

}  // namespace

absl::StatusOr<std::string> RunAgain(std::vector<std::string> args, const LocalData& data) {
  BULKHEAD_ASSIGN_OR_RETURN(const TemporaryFolder folder, TemporaryFolder::Make("run"));
  BULKHEAD_ASSIGN_OR_RETURN(auto pair, PacketSocket::MakePair());
  const auto ours = std::make_shared<const PacketSocket>(std::move(pair.first));
  SpawnSpec spec;
  BULKHEAD_ASSIGN_OR_RETURN(spec.program, ProgramPath());
  spec.args = std::move(args);
  BULKHEAD_ASSIGN_OR_RETURN(std::vector<std::string> variables, AskedEnvironment({}));
  variables.push_back("TMPDIR=" + folder.path());
  spec.environment = WorkerEnvironment(variables);
  spec.inherits_environment = false;
  spec.passed_fd = pair.second.fd();
  BULKHEAD_ASSIGN_OR_RETURN(ChildProcess child, ChildProcess::Spawn(spec));
  pair.second = PacketSocket();
  // A run that ends before it reads this says why.
  (void)ours->Send(absl::StrCat(std::string(1, data.found_objects() == nullptr ? kFiles : kObjects),
                                data.found().resolved.SerializeAsString()));
  std::string answer;
  FetchingForRun fetching(data.found_objects(), ours);
  while (answer.empty()) {
    absl::StatusOr<Packet> packet = ours->Receive(/*wait=*/true, kMostAnswerBytes);
    if (!packet.ok()) break;
    const bool is_answer = absl::StartsWith(packet->bytes, std::string(1, kResult)) ||
                           absl::StartsWith(packet->bytes, std::string(1, kError));
    is_answer ? answer.swap(packet->bytes) : fetching.Take(packet->bytes);
  }
  (void)ours->Send(std::string(1, kTaken));
  pollfd ended = {child.pidfd(), POLLIN, 0};
  std::optional<ProcessExit> exit;
  while (!(exit = child.TryReap()).has_value()) poll(&ended, 1, -1);
  if (!exit->ok() || answer.empty()) return NoAnswer(*exit);
  if (answer[0] == kResult) return answer.substr(1);
  internal::v1::WorkerError error;
  if (!error.ParseFromString(answer.substr(1))) return NoAnswer(*exit);
  *error.mutable_message() = client_internal::InOptions(error.message());
  return StatusFromWorkerError(error);
}

std::vector<std::string> OwnArguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string line{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::string> words = absl::StrSplit(line, '\0');
  words.pop_back();  // behind the last terminator
  words.erase(words.begin());
  return words;
}

absl::StatusOr<DataOfRun> ReceiveData() {
  // AnswerRun has the descriptor itself.
  PacketSocket socket(UniqueFd(fcntl(ChildProcess::kPassedFd, F_DUPFD_CLOEXEC, 0)));
  BULKHEAD_ASSIGN_OR_RETURN(const Packet packet, socket.Receive());
  DataOfRun data;
  if (packet.bytes.empty() || !data.resolved.ParseFromString(packet.bytes.substr(1))) {
    return absl::InternalError("the data of a run cannot be read");
  }
  if (packet.bytes[0] == kObjects)
    data.fetcher = std::make_shared<AskingFetcher>(std::move(socket));
  return data;
}

int AnswerRun(const absl::StatusOr<std::string>& result) {
  const std::string answer = result.ok()
                                 ? absl::StrCat(std::string(1, kResult), *result)
                                 : absl::StrCat(std::string(1, kError),
                                                ToWorkerError(result.status()).SerializeAsString());
  const PacketSocket socket{UniqueFd(ChildProcess::kPassedFd)};
  if (!socket.Send(answer).ok()) return 1;
  // The kernel drops what was sent by one who ends before he has read all that was sent to him.
  absl::StatusOr<Packet> packet = socket.Receive();
  while (packet.ok() && packet->bytes != std::string(1, kTaken)) packet = socket.Receive();
  return 0;
}

}  // namespace bulkhead::tools
