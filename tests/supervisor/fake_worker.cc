// A worker without a pipeline, for tests of the supervisor: speaks the real protocol over the real
// socket, and misbehaves as the binding (here a plain word) tells it to. Sample i of a batch is one
// byte: its position, modulo 256.

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <thread>

#include "bulkhead/internal/v1/worker.pb.h"
#include "server/arena/arena.h"
#include "server/arena/exit_codes.h"
#include "server/arena/flight_recorder.h"
#include "server/os/packet_socket.h"

namespace bulkhead {
namespace {

class FakeWorker {
 public:
  explicit FakeWorker(PacketSocket socket) : socket_(std::move(socket)) {}

  int Run() {
    internal::v1::FromWorker hello;
    hello.mutable_hello()->set_version("fake");
    Send(hello);
    while (true) {
      auto packet = socket_.Receive();
      if (!packet.ok()) return kExitProtocol;
      internal::v1::ToWorker message;
      if (!message.ParseFromString(packet->bytes)) return kExitProtocol;
      if (message.has_shutdown()) {
        if (mode_ == "lingers") usleep(300'000);
        return 0;
      }
      if (message.has_bind()) Bind(message.bind(), *packet);
      if (message.has_add_stream()) AddStream(message.add_stream().stream(), *packet);
      if (message.has_remove_stream()) RemoveStream(message.remove_stream().stream_id());
      if (message.has_lease()) Produce(message.lease());
      if (message.has_warm_up()) WarmUp();
      if (message.has_build_index()) BuildIndex(message.build_index(), packet->fds[0].get());
    }
  }

 private:
  void Send(const internal::v1::FromWorker& message) {
    if (!socket_.Send(message.SerializeAsString()).ok()) _exit(kExitProtocol);
  }

  void Bind(const internal::v1::Bind& bind, Packet& packet) {
    mode_ = ReadSealedMessage(packet.fds[0].get()).value();
    recorder_ = std::make_unique<FlightRecorder>(
        FlightRecorder::Attach(std::move(packet.fds[1]), bind.threads()).value());
    recorder_->SetStages({"worker", "source", "stages[0] fake"});
    if (mode_ == "crash-on-bind") raise(SIGKILL);
    if (mode_ == "garbage") {
      (void)socket_.Send("\xff\xff\xff");
      pause();
    }
    internal::v1::FromWorker message;
    if (mode_ == "fail-to-bind") {
      message.mutable_failed()->mutable_error()->set_code(9);
      message.mutable_failed()->mutable_error()->set_message("the index is damaged");
      message.mutable_failed()->mutable_error()->set_reason("CORRUPT_RECORD");
    } else {
      message.mutable_bound();
    }
    Send(message);
    if (mode_ == "hello-again") {
      internal::v1::FromWorker hello;
      hello.mutable_hello();
      Send(hello);
    }
    if (mode_ == "reads-late") usleep(300'000);
  }

  void AddStream(const internal::v1::StreamBinding& binding, Packet& packet) {
    arenas_[binding.stream_id()] =
        Arena::Attach(std::move(packet.fds[0]), binding.slot_bytes(), binding.slot_count()).value();
  }

  void RemoveStream(uint64_t stream_id) {
    arenas_.erase(stream_id);
    if (mode_ == "keeps-arenas") return;
    internal::v1::FromWorker message;
    message.mutable_stream_removed()->set_stream_id(stream_id);
    Send(message);
  }

  // Memory that is never given back.
  static void Hold(size_t bytes) {
    auto* const memory = static_cast<volatile char*>(malloc(bytes));
    for (size_t i = 0; i < bytes; i += 4096) memory[i] = 1;
  }

  // As many as it is given.
  static void StartThreads(int count) {
    try {
      for (int i = 0; i < count; ++i) std::thread([] { pause(); }).detach();
    } catch (const std::system_error&) {
    }
  }

  void WarmUp() {
    if (mode_ == "dies-in-warm-up") raise(SIGKILL);
    if (mode_ == "never-warm") return;
    internal::v1::FromWorker message;
    message.mutable_warmed_up();
    Send(message);
  }

  void Produce(const internal::v1::Lease& lease) {
    if (mode_ == "hang") pause();
    if (mode_ == "out-of-memory") _exit(kExitOutOfMemory);
    if (mode_ == "quits") _exit(0);
    const uint64_t first = lease.first_position() + lease.first_sample();
    if (mode_ == "dies-at-1000020" && first <= 1000020 && first + lease.count() > 1000020) {
      raise(SIGKILL);
    }
    for (uint32_t i = 0; i < lease.count(); ++i) {
      const uint64_t sample = lease.first_sample() + i;
      recorder_->BeginSample(0, lease.stream_id(), lease.lease_id(), lease.epoch(),
                             lease.first_position() + sample);
      recorder_->NameSample(0, std::to_string(lease.first_position() + sample));
      recorder_->thread(0).stage = 2;
      if (mode_ == "leaks") Hold(1 << 20);
      if (mode_ == "takes-much" && lease.first_position() + sample == 120) {
        Hold(100 << 20);
        usleep(1'000'000);  // the watchdog looks every 20 ms
      }
      if (mode_ == "thread-bomb" && lease.first_position() + sample == 120) {
        StartThreads(1000);
        usleep(1'000'000);
      }
      if (mode_ == "crashes-at-120" && lease.first_position() + sample == 120) raise(SIGSEGV);
      arenas_[lease.stream_id()]->slot(lease.slot())[sample] =
          static_cast<std::byte>(lease.first_position() + sample);
      if (mode_ == "leaks") usleep(2'000);
      if (mode_ == "slow") {
        usleep(100'000);
        internal::v1::FromWorker progress;
        progress.mutable_lease_progress();
        Send(progress);
      }
      recorder_->EndSample(0);
      if (mode_ == "die-in-third-lease" && ++leases_ > 2 * 16) raise(SIGKILL);
    }
    internal::v1::FromWorker message;
    if (mode_ == "fail-position-40" && lease.first_position() + lease.first_sample() <= 40 &&
        lease.first_position() + lease.first_sample() + lease.count() > 40) {
      message.mutable_lease_failed()->set_lease_id(lease.lease_id());
      message.mutable_lease_failed()->set_stream_id(lease.stream_id());
      message.mutable_lease_failed()->set_position(40);
      message.mutable_lease_failed()->mutable_error()->set_code(15);
      message.mutable_lease_failed()->mutable_error()->set_message("bad sample");
      message.mutable_lease_failed()->mutable_error()->set_reason("CORRUPT_IMAGE");
    } else {
      message.mutable_lease_done()->set_lease_id(lease.lease_id());
      message.mutable_lease_done()->set_stream_id(lease.stream_id());
      if (mode_ == "substitutes") {
        message.mutable_lease_done()->add_substitutions()->set_position(first);
      }
    }
    Send(message);
  }

  void BuildIndex(const internal::v1::BuildIndex& request, int fd) {
    const std::string& name = request.file().name();
    if (name == "kills-workers") raise(SIGKILL);
    if (name == "hangs") pause();
    if (name == "lingers") mode_ = name;
    // The worker that comes first stops, having made the file whose name follows.
    if (name.rfind("stops-first:", 0) == 0) {
      const UniqueFd mark(open(name.c_str() + 12, O_WRONLY | O_CREAT | O_EXCL, 0600));
      if (mark) raise(SIGSTOP);
    }
    if (name == "takes-much") {
      Hold(100 << 20);
      pause();
    }
    internal::v1::FromWorker message;
    if (name == "bad") {
      message.mutable_failed()->set_job_id(request.job_id());
      message.mutable_failed()->mutable_error()->set_code(15);
      message.mutable_failed()->mutable_error()->set_message("bad@12");
      message.mutable_failed()->mutable_error()->set_reason("TRUNCATED_RECORD");
    } else {
      if (write(fd, name.data(), name.size()) < 0) _exit(1);
      message.mutable_index_done()->set_job_id(request.job_id());
      message.mutable_index_done()->set_records(name.size());
    }
    Send(message);
  }

  const PacketSocket socket_;
  std::unique_ptr<FlightRecorder> recorder_;
  std::string mode_;
  std::map<uint64_t, std::shared_ptr<Arena>> arenas_;
  int leases_ = 0;  // samples of them
};

}  // namespace
}  // namespace bulkhead

int main(int argc, char** argv) {
  const char* fd = std::strchr(argv[1], '=') + 1;
  _exit(bulkhead::FakeWorker(bulkhead::PacketSocket(bulkhead::UniqueFd(std::atoi(fd)))).Run());
}
