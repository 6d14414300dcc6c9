// A worker without a pipeline, for tests of the supervisor: speaks the real protocol over the real
// socket, and misbehaves as the binding (here a plain word) tells it to. Sample i of a batch is one
// byte: its position, modulo 256.

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <system_error>
#include <thread>

#include "bulkhead/internal/v1/worker.pb.h"
#include "server/arena/arena.h"
#include "server/arena/exit_codes.h"
#include "server/arena/flight_recorder.h"
#include "server/os/sockets/packet_socket.h"

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
      if (message.has_set_quarantine()) {
        const internal::v1::SetQuarantine& set = message.set_quarantine();
        quarantined_[set.stream_id()] = {set.quarantined().begin(), set.quarantined().end()};
      }
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
    // "fail-to-bind-while:FILE": as long as there is one.
    const std::string while_there = "fail-to-bind-while:";
    if (mode_ == "fail-to-bind" || (mode_.rfind(while_there, 0) == 0 &&
                                    access(mode_.c_str() + while_there.size(), F_OK) == 0)) {
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
    const auto arena =
        Arena::Attach(std::move(packet.fds[0]), binding.slot_bytes(), binding.slot_count()).value();
    for (uint32_t slot = 0; slot < arena->slot_count(); ++slot) (void)arena->Open(slot);
    arenas_[binding.stream_id()] = arena;
    quarantined_[binding.stream_id()] = {binding.quarantined().begin(),
                                         binding.quarantined().end()};
  }

  // "crash-once:FOLDER": the first worker that comes here takes the workers' program along.
  void CrashOnce(const std::string& folder) const {
    if (open((folder + "/crashed").c_str(), O_CREAT | O_EXCL | O_CLOEXEC, 0600) < 0) return;
    unlink((folder + "/worker").c_str());
    raise(SIGSEGV);
  }

  // More lines, and longer ones, than any honest worker sends.
  void Babble() {
    internal::v1::FromWorker message;
    message.mutable_note()->set_text("\033[2J" + std::string(50000, 'x'));
    for (int i = 0; i < 1000; ++i) Send(message);
  }

  // What a sample does to its worker, in the modes in which one does.
  void MeetSample(uint64_t stream_id, uint64_t position) {
    const bool left_out = quarantined_[stream_id].count(std::to_string(position)) > 0;
    const bool bad = position == 120 && !left_out;
    if (mode_ == "crashes-at-20020" && position == 20020 && !left_out) raise(SIGSEGV);
    if (bad && (mode_ == "crashes-at-120" || mode_ == "names-another")) raise(SIGSEGV);
    if (bad && mode_ == "hangs-at-120") pause();
    if (bad && mode_ == "hangs-reading-120") {
      recorder_->thread(0).stage = FlightRecorder::kSourceStage;
      pause();
    }
    const std::string crash_once = "crash-once:";
    if (position == 120 && mode_.rfind(crash_once, 0) == 0) {
      CrashOnce(mode_.substr(crash_once.size()));
    }
  }

  // What is said of a lease's substitutions, in the modes in which something is.
  void Substitute(const internal::v1::Lease& lease, internal::v1::LeaseDone& done) {
    const uint64_t first = lease.first_position() + lease.first_sample();
    const auto add = [&](uint64_t position, uint64_t by) {
      done.add_substitutions()->set_position(position);
      done.mutable_substitutions()->rbegin()->set_substitute_position(by);
    };
    if (mode_ == "substitutes") add(first, first + 1);
    if (mode_ == "speaks-for-others" && first <= 120 && first + lease.count() > 120) {
      add(first + 1000, first + 1001);
    }
    for (const std::string& record : quarantined_[lease.stream_id()]) {
      const uint64_t position = std::stoull(record);
      if (position >= first && position < first + lease.count()) add(position, position + 1);
    }
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

  // Threads that take all the CPU time they get.
  static void StartSpinning(int count) {
    for (int i = 0; i < count; ++i) {
      std::thread([] {
        for (std::atomic<uint64_t> turns = 0;;) ++turns;
      }).detach();
    }
  }

  void WarmUp() {
    if (mode_ == "dies-in-warm-up") raise(SIGKILL);
    if (mode_ == "never-warm") return;
    if (mode_ == "leaks-and-warms-up-late") usleep(700'000);
    internal::v1::FromWorker message;
    message.mutable_warmed_up();
    Send(message);
  }

  void Produce(const internal::v1::Lease& lease) {
    if (mode_ == "babbles") Babble();
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
      const bool leaks = mode_ == "leaks" || mode_ == "leaks-and-warms-up-late";
      if (leaks) Hold(1 << 20);
      if (mode_ == "takes-much" && lease.first_position() + sample == 120) {
        // As a worker that counts its allocations: it may be over its quota at the first look.
        recorder_->thread(0).counters[2].live_bytes = 100 << 20;
        Hold(100 << 20);
        usleep(1'000'000);  // the watchdog looks every 20 ms
      }
      if (mode_ == "thread-bomb" && lease.first_position() + sample == 120) {
        StartThreads(1000);
        usleep(1'000'000);
      }
      if (mode_ == "some-threads" && samples_++ == 0) StartThreads(20);
      if (mode_ == "spins" && samples_++ == 0) StartSpinning(4);
      if (mode_ == "names-another" && lease.first_position() + sample == 120) {
        recorder_->BeginSample(0, lease.stream_id(), lease.lease_id(), lease.epoch(), 5000);
        recorder_->NameSample(0, "5000");
      }
      if (mode_ == "misnames-120" && lease.first_position() + sample == 120) {
        recorder_->NameSample(0, "121");
        raise(SIGABRT);
      }
      MeetSample(lease.stream_id(), lease.first_position() + sample);
      arenas_[lease.stream_id()]->slot(lease.slot())[sample] =
          static_cast<std::byte>(lease.first_position() + sample);
      if (leaks) usleep(2'000);
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
      Substitute(lease, *message.mutable_lease_done());
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
    // The same, but that it dies, when it has written something.
    if (name.rfind("dies-first:", 0) == 0) {
      const UniqueFd mark(open(name.c_str() + 11, O_WRONLY | O_CREAT | O_EXCL, 0600));
      if (mark && pwrite(fd, "half an index", 13, 0) > 0) raise(SIGKILL);
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
      if (pwrite(fd, name.data(), name.size(), 0) < 0) _exit(1);
      message.mutable_index_done()->set_job_id(request.job_id());
      message.mutable_index_done()->set_records(name == "pid" ? getpid() : name.size());
    }
    Send(message);
  }

  const PacketSocket socket_;
  std::unique_ptr<FlightRecorder> recorder_;
  std::string mode_;
  std::map<uint64_t, std::shared_ptr<Arena>> arenas_;
  std::map<uint64_t, std::set<std::string>> quarantined_;  // by stream
  int leases_ = 0;                                         // samples of them
  int samples_ = 0;
};

}  // namespace
}  // namespace bulkhead

int main(int argc, char** argv) {
  const char* fd = std::strchr(argv[1], '=') + 1;
  _exit(bulkhead::FakeWorker(bulkhead::PacketSocket(bulkhead::UniqueFd(std::atoi(fd)))).Run());
}
