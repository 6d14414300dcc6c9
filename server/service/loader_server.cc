#include "server/service/loader_server.h"

#include <grpc/support/time.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/server_posix.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/notification.h"
#include "grpc/health/v1/health.pb.h"
#include "server/base/error.h"
#include "server/os/files/random_name.h"
#include "server/os/process/thread.h"
#include "server/os/sockets/connection.h"
#include "server/os/sockets/tcp.h"
#include "server/os/sockets/unix_address.h"
#include "server/service/access/tls_credentials.h"
#include "server/service/index_builds.h"
#include "server/service/limits/call_rate.h"
#include "server/service/memory_trim.h"

namespace bulkhead {
namespace {

constexpr char kUnixScheme[] = "unix:";
constexpr size_t kBootIdBytes = 8;
// For cut calls to end.
constexpr absl::Duration kCutPatience = absl::Seconds(5);
// For connections to end once there is no call on them. gRPC itself waits up to 20 s for a client
// that does not answer, for example because it was stopped.
constexpr absl::Duration kGoodbye = absl::Seconds(1);
// For a spec, at most 1 MiB, and a cursor, which names up to 4,096 files of code of 1 KiB each.
// Both clients refuse more (client/cpp/internal/rpc/channel.h,
// client/python/bulkhead/_rpc/stream_call.py).
constexpr int kMaxRequestBytes = 8 << 20;
// For the disk to save newly quarantined records.
constexpr absl::Duration kSavePatience = absl::Seconds(5);
// Detects peers that vanished, and trainers that are stopped for good.
constexpr absl::Duration kKeepalive = absl::Seconds(20);
constexpr absl::Duration kRefresh = absl::Seconds(1);
// What a client may send of a request before the service asks for it.
constexpr int kUnaskedBytes = 16 << 10;
// What TLS seals at once, for which each connection keeps a buffer; gRPC's default is 16 KiB. A
// sealed frame must not fit into the 8 KiB that gRPC 1.51 hands on at once (STAGING_BUFFER_SIZE):
// where one ends together with what is written, its flush (ssl_protector_protect_flush) finds
// nothing, leaves the size that it returns as it was, and bytes that nobody wrote are sent.
constexpr int kTlsFrameBytes = 9 << 10;
static_assert(kTlsFrameBytes - 100 > 8 << 10);  // 100: what gRPC leaves for the header and the tag

absl::StatusOr<std::shared_ptr<void>> Shared(absl::StatusOr<MemoryClaim> claim) {
  if (!claim.ok()) return claim.status();
  return std::make_shared<MemoryClaim>(*std::move(claim));
}

}  // namespace

absl::StatusOr<std::unique_ptr<LoaderServer>> LoaderServer::Start(Config config) {
  std::unique_ptr<LoaderServer> server(new LoaderServer(std::move(config)));
  BULKHEAD_RETURN_IF_ERROR(server->MakeParts());
  BULKHEAD_RETURN_IF_ERROR(server->Serve());
  return server;
}

absl::Status LoaderServer::MakeParts() {
  const ServiceLimits& limits = config_.limits;
  Supervisor::Config supervisor = config_.supervisor;
  supervisor.name = boot_id_;
  supervisor.worker_program = config_.worker_program;
  supervisor.max_index_workers = limits.workers;
  supervisor.memory = limits.memory;
  supervisor.index_worker_quota_bytes = limits.worker_quota_bytes;
  if (supervisor.io == nullptr) {
    BULKHEAD_ASSIGN_OR_RETURN(supervisor.io, IoThread::Start());
  }
  io_ = supervisor.io;
  ObjectFetcher::Config objects = config_.objects;
  objects.admit = [this] { return Shared(supervisor_->AdmitProcess(config_.objects.quota_bytes)); };
  objects_ = std::make_unique<ObjectFetcher>(std::move(objects));
  BULKHEAD_ASSIGN_OR_RETURN(supervisor_, Supervisor::Start(std::move(supervisor)));
  DatasetStore::Config datasets = config_.datasets;
  datasets.admit = [this](uint64_t bytes) { return Shared(supervisor_->AdmitDataset(bytes)); };
  datasets.end_idle = [this] { return supervisor_->EndIdleWithDataset(); };
  datasets_ = std::make_unique<DatasetStore>(std::move(datasets));
  indexes_ = std::make_unique<IndexStore>(
      IndexFolder::Config{config_.cache_dir, config_.index_bytes, FdLimit() / 2},
      IndexBuilder(limits.workers, limits.worker_quota_bytes, supervisor_.get()), objects_.get());
  preparer_ = std::make_unique<Preparer>(limits, config_.roots, indexes_.get(), objects_.get());
  quarantine_ = std::make_shared<QuarantineStore>(config_.cache_dir);
  BULKHEAD_ASSIGN_OR_RETURN(loop_, EventLoop::Create());
  return StartThread([loop = loop_] { loop->Run(); }, loop_thread_);
}

absl::Status LoaderServer::Serve() {
  std::unique_ptr<UnixAddressLock> address_lock;
  if (const std::string path = UnixPath(); !path.empty()) {
    BULKHEAD_ASSIGN_OR_RETURN(address_lock, UnixAddressLock::Take(path));
  }
  TrimMemoryWhenIdle(loop_.get());
  OpenArenaDoor();
  service_ =
      std::make_unique<LoaderService>(SessionContext{.preparer = preparer_.get(),
                                                     .supervisor = supervisor_.get(),
                                                     .sessions = &sessions_,
                                                     .request_memory = &request_memory_,
                                                     .directory = &directory_,
                                                     .stream_counts = &stream_counts_,
                                                     .refusal_lines = &refusal_lines_,
                                                     .access = config_.access,
                                                     .peers = &peers_,
                                                     .datasets = datasets_.get(),
                                                     .door = door_.get(),
                                                     .loop = loop_.get(),
                                                     .quarantine = quarantine_,
                                                     .io = io_,
                                                     .storage = &storage_,
                                                     .boot_id = boot_id_},
                                      config_.log_lines_dropped, config_.openings_per_second);
  health_ = std::make_unique<HealthService>(config_.access, peers_, *loop_,
                                            [this] { return is_serving(); });
  BULKHEAD_RETURN_IF_ERROR(Listen());
  loop_->Post([this] { WatchDatasets(); });
  if (config_.tls != nullptr) loop_->Post([this] { RefreshTls(); });
  {
    absl::MutexLock lock(&status_mutex_);
    has_status_ = true;
  }
  serving_ = true;
  return absl::OkStatus();
}

LoaderServer::LoaderServer(Config config)
    : config_(std::move(config)), boot_id_(RandomName(kBootIdBytes)) {}

LoaderServer::~LoaderServer() { Shutdown(absl::ZeroDuration()); }

std::string LoaderServer::UnixPath() const {
  if (!absl::StartsWith(config_.address, kUnixScheme)) return "";
  return std::string(absl::StripPrefix(config_.address, kUnixScheme));
}

void LoaderServer::OpenArenaDoor() {
  if (UnixPath().empty()) return;
  const std::string path = absl::StrCat(UnixPath(), kArenaDoorSuffix);
  absl::StatusOr<std::unique_ptr<ArenaDoor>> door = ArenaDoor::Open(loop_, path, boot_id_);
  if (door.ok()) {
    door_ = *std::move(door);
  } else {
    spdlog::warn("clients cannot use shared memory: {}", std::string(door.status().message()));
  }
}

absl::Status LoaderServer::Listen() {
  address_ = config_.address;
  const bool is_unix = !UnixPath().empty();
  if (config_.tls == nullptr) {
    // gRPC brings no descriptor of it, and reflection answers with those that are linked.
    google::protobuf::LinkMessageReflection<grpc::health::v1::HealthCheckRequest>();
    // Not for strangers: its calls wait for threads, and those that were cancelled take memory.
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  }
  grpc::ServerBuilder builder;
  builder.RegisterService(service_.get());
  builder.RegisterService(health_.get());
  builder.RegisterCallbackGenericService(&unknown_methods_);
  // A request may be small and inflate to gigabytes, which gRPC counts to no limit.
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.SetMaxReceiveMessageSize(kMaxRequestBytes);
  builder.SetResourceQuota(grpc::ResourceQuota("requests").Resize(kMostUnfinishedBytes));
  const auto ms = [](absl::Duration duration) {
    return static_cast<int>(absl::ToInt64Milliseconds(duration));
  };
  const std::pair<const char*, int> arguments[] = {
      {GRPC_ARG_HTTP2_BDP_PROBE, 0},
      {GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kUnaskedBytes},
      {GRPC_ARG_MAX_CONCURRENT_STREAMS, SessionRegistry::kMaxSessionsOfOne},
      {GRPC_ARG_KEEPALIVE_TIME_MS, ms(kKeepalive)},
      {GRPC_ARG_KEEPALIVE_TIMEOUT_MS, ms(kKeepalive)},
      {GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0},
      {GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, ms(kHandshake)},
      {GRPC_ARG_MAX_CONNECTION_IDLE_MS, ms(config_.idle_connection)},
      {GRPC_ARG_TSI_MAX_FRAME_SIZE, kTlsFrameBytes},
  };
  for (const auto& [name, value] : arguments) builder.AddChannelArgument(name, value);
  credentials_ = config_.tls == nullptr ? grpc::InsecureServerCredentials()
                                        : std::make_shared<TlsCredentials>(config_.tls);
  using Entries = grpc::ServerBuilder::experimental_type;
  if (!is_unix) {
    tcp_entry_ = builder.experimental().AddExternalConnectionAcceptor(
        Entries::ExternalConnectionType::FROM_FD, credentials_);
  }
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> paces;
  paces.push_back(std::make_unique<CallRate>(peers_));
  builder.experimental().SetInterceptorCreators(std::move(paces));
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) return absl::InternalError("gRPC does not start a server");
  return is_unix ? ListenOnUnix(UnixPath()) : ListenOnTcp();
}

void LoaderServer::RefreshTls() {
  TlsFiles::RefreshSoon(config_.tls, *io_);
  loop_->After(kRefresh, [this] { RefreshTls(); });
}

void LoaderServer::WatchDatasets() {
  datasets_->DropUnused(MonotonicNanos());
  loop_->After(DatasetStore::kKept / 4, [this] { WatchDatasets(); });
}

void LoaderServer::WatchTcp() {
  loop_->After(peers_.HangUpOnExcess(MonotonicNanos()), [this] { WatchTcp(); });
}

std::optional<v1::GetStatusResponse> LoaderServer::Status() {
  absl::ReaderMutexLock lock(&status_mutex_);
  if (!has_status_) return std::nullopt;
  return service_->Status();
}

std::map<v1::RecycleCause, uint64_t> LoaderServer::RecyclingCounts() {
  absl::ReaderMutexLock lock(&status_mutex_);
  if (!has_status_) return {};
  return supervisor_->RecyclingCounts();
}

absl::Status LoaderServer::ListenOnUnix(const std::string& path) {
  auto acceptor = Acceptor::OpenUnix(loop_, path, [this](UniqueFd connection) {
    const auto peer = PeerOf(connection.get());
    if (!peer.ok()) return;  // it is gone already
    peers_.Connected(connection.get(), peer->pid);
    grpc::AddInsecureChannelFromFd(server_.get(), connection.release());
  });
  if (acceptor.ok()) acceptors_.push_back(*std::move(acceptor));
  return acceptor.status();
}

absl::Status LoaderServer::ListenOnTcp() {
  const size_t colon = address_.rfind(':');
  const std::string shown = address_.substr(0, colon);
  std::string host = shown;
  if (absl::StartsWith(host, "[")) host = host.substr(1, host.size() - 2);
  uint32_t port = 0;
  if (!absl::SimpleAtoi(address_.substr(colon + 1), &port) || port > UINT16_MAX) {
    return absl::InvalidArgumentError(absl::StrCat("--listen ", address_, " has no port"));
  }
  port_ = static_cast<uint16_t>(port);
  BULKHEAD_ASSIGN_OR_RETURN(const std::vector<std::string> addresses, AddressesOf(host));
  for (const std::string& address : addresses) {
    auto acceptor =
        Acceptor::OpenTcp(loop_, address, port_, [this](UniqueFd fd) { TakeTcp(std::move(fd)); });
    if (acceptor.ok()) acceptors_.push_back(*std::move(acceptor));
  }
  if (acceptors_.empty()) {
    return absl::AlreadyExistsError(
        absl::StrCat("cannot listen on ", config_.address,
                     ": it is taken, or not an address of this machine; choose another --listen"));
  }
  address_ = absl::StrCat(shown, ":", port_);
  loop_->Post([this] { WatchTcp(); });
  return absl::OkStatus();
}

void LoaderServer::TakeTcp(UniqueFd connection) {
  const absl::StatusOr<std::string> host = PeerHost(connection.get());
  if (!host.ok()) return;  // it is gone already
  const int64_t now_ns = MonotonicNanos();
  const absl::Status admitted = tcp_limits_.Admit(connection.get(), *host, now_ns);
  if (!admitted.ok()) {
    if (told_.Take(now_ns)) {
      spdlog::error("connections are closed a second after they are made, unheard: {}",
                    std::string(admitted.message()));
    }
    if (refused_ >= LateRefusals::kMost) return;
    ++refused_;
    loop_->After(LateRefusals::kDelay,
                 [this, held = std::make_shared<UniqueFd>(std::move(connection))] {
                   --refused_;
                   held->reset();
                 });
    return;
  }
  SetTcpOptions(connection.get(), kKeepalive);
  peers_.Connected(connection.get());
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
  parameters.fd = connection.release();
  tcp_entry_->HandleNewConnection(&parameters);
}

void LoaderServer::CloseDoors() {
  if (!loop_thread_.joinable()) return;
  absl::Notification closed;
  loop_->Post([&] {
    if (door_ != nullptr) door_->Close();
    for (const auto& acceptor : acceptors_) acceptor->Close();
    closed.Notify();
  });
  closed.WaitForNotification();
}

bool LoaderServer::Shutdown(absl::Duration deadline) {
  if (shut_down_) return sessions_ended_;
  shut_down_ = true;
  serving_ = false;
  sessions_.StartDraining();
  request_memory_.StartDraining();
  CloseDoors();
  if (supervisor_ != nullptr) supervisor_->EndStreams(SessionRegistry::Draining());
  if (server_ != nullptr) {
    if (!sessions_.WaitUntilEmpty(deadline)) {
      spdlog::warn("calls that have not ended within {} are cut off",
                   absl::FormatDuration(deadline));
    }
    server_->Shutdown(
        gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                     gpr_time_from_millis(absl::ToInt64Milliseconds(std::min(deadline, kGoodbye)),
                                          GPR_TIMESPAN)));
    sessions_ended_ = sessions_.WaitUntilEmpty(kCutPatience);
  }
  {
    absl::MutexLock lock(&status_mutex_);
    has_status_ = false;
  }
  if (supervisor_ != nullptr && !supervisor_->Shutdown()) sessions_ended_ = false;
  if (quarantine_ != nullptr && !QuarantineStore::Flush(quarantine_, *io_, kSavePatience)) {
    spdlog::warn(
        "records quarantined just now could not be saved: the cache folder does not answer");
  }
  if (loop_thread_.joinable()) {
    loop_->Post([this] {
      door_.reset();
      acceptors_.clear();
    });
    loop_->Stop();
    loop_thread_.join();
  }
  return sessions_ended_;
}

}  // namespace bulkhead
