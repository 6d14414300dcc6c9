#include "server/service/loader_server.h"

#include <grpc/support/time.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/server_posix.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

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

}  // namespace

absl::StatusOr<std::unique_ptr<LoaderServer>> LoaderServer::Start(Config config) {
  std::unique_ptr<LoaderServer> server(new LoaderServer(std::move(config)));
  server->boot_id_ = RandomName(kBootIdBytes);
  Supervisor::Config supervisor = server->config_.supervisor;
  supervisor.name = server->boot_id_;
  supervisor.worker_program = server->config_.worker_program;
  supervisor.max_index_workers = server->config_.limits.workers;
  supervisor.memory = server->config_.limits.memory;
  supervisor.index_worker_quota_bytes = server->config_.limits.worker_quota_bytes;
  if (supervisor.io == nullptr) {
    BULKHEAD_ASSIGN_OR_RETURN(supervisor.io, IoThread::Start());
  }
  server->io_ = supervisor.io;
  ObjectFetcher::Config objects = server->config_.objects;
  objects.admit = [raw = server.get()]() -> absl::StatusOr<std::shared_ptr<void>> {
    BULKHEAD_ASSIGN_OR_RETURN(MemoryClaim claim,
                              raw->supervisor_->AdmitProcess(raw->config_.objects.quota_bytes));
    return std::make_shared<MemoryClaim>(std::move(claim));
  };
  server->objects_ = std::make_unique<ObjectFetcher>(std::move(objects));
  BULKHEAD_ASSIGN_OR_RETURN(server->supervisor_, Supervisor::Start(std::move(supervisor)));
  DatasetStore::Config datasets = server->config_.datasets;
  datasets.admit = [raw = server.get()](uint64_t bytes) -> absl::StatusOr<std::shared_ptr<void>> {
    BULKHEAD_ASSIGN_OR_RETURN(MemoryClaim claim, raw->supervisor_->AdmitDataset(bytes));
    return std::make_shared<MemoryClaim>(std::move(claim));
  };
  datasets.end_idle = [raw = server.get()] { return raw->supervisor_->EndIdleWithDataset(); };
  server->datasets_ = std::make_unique<DatasetStore>(std::move(datasets));
  const ServiceLimits& limits = server->config_.limits;
  server->indexes_ = std::make_unique<IndexStore>(
      IndexFolder::Config{server->config_.cache_dir, server->config_.index_bytes, FdLimit() / 2},
      [builds = IndexBuilds(limits.workers, limits.worker_quota_bytes, server->supervisor_.get())](
          auto&&... arguments) { return builds.Run(arguments...); },
      server->objects_.get());
  server->preparer_ = std::make_unique<Preparer>(limits, server->config_.roots,
                                                 server->indexes_.get(), server->objects_.get());
  server->quarantine_ = std::make_shared<QuarantineStore>(server->config_.cache_dir);
  BULKHEAD_ASSIGN_OR_RETURN(server->loop_, EventLoop::Create());
  BULKHEAD_RETURN_IF_ERROR(
      StartThread([loop = server->loop_] { loop->Run(); }, server->loop_thread_));
  std::unique_ptr<UnixAddressLock> address_lock;
  if (const std::string path = server->UnixPath(); !path.empty()) {
    BULKHEAD_ASSIGN_OR_RETURN(address_lock, UnixAddressLock::Take(path));
  }
  server->memory_trim_ = std::make_unique<MemoryTrim>(server->loop_.get());
  server->memory_trim_->Start();
  server->OpenArenaDoor();
  SessionContext context;
  context.preparer = server->preparer_.get();
  context.supervisor = server->supervisor_.get();
  context.sessions = &server->sessions_;
  context.request_memory = &server->request_memory_;
  context.directory = &server->directory_;
  context.stream_counts = &server->stream_counts_;
  context.refusal_lines = &server->refusal_lines_;
  context.access = server->config_.access;
  context.peers = &server->peers_;
  context.datasets = server->datasets_.get();
  context.door = server->door_.get();
  context.loop = server->loop_.get();
  context.quarantine = server->quarantine_;
  context.io = server->io_;
  context.storage = &server->storage_;
  context.boot_id = server->boot_id_;
  server->service_ = std::make_unique<LoaderService>(
      std::move(context), server->config_.log_lines_dropped, server->config_.openings_per_second);
  server->health_ =
      std::make_unique<HealthService>(server->config_.access, server->peers_, *server->loop_,
                                      [server = server.get()] { return server->is_serving(); });
  BULKHEAD_RETURN_IF_ERROR(server->Listen());
  server->loop_->Post([server = server.get()] { server->WatchDatasets(); });
  if (server->config_.tls != nullptr) {
    server->loop_->Post([server = server.get()] { server->RefreshTls(); });
  }
  {
    absl::MutexLock lock(&server->status_mutex_);
    server->has_status_ = true;
  }
  server->serving_ = true;
  return server;
}

LoaderServer::LoaderServer(Config config) : config_(std::move(config)) {}

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
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kUnaskedBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             static_cast<int>(SessionRegistry::kMaxSessionsOfOne));
  const auto keepalive_ms = static_cast<int>(absl::ToInt64Milliseconds(kKeepalive));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, keepalive_ms);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, keepalive_ms);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                             static_cast<int>(absl::ToInt64Milliseconds(kHandshake)));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS,
                             static_cast<int>(absl::ToInt64Milliseconds(config_.idle_connection)));
  builder.AddChannelArgument(GRPC_ARG_TSI_MAX_FRAME_SIZE, kTlsFrameBytes);
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
