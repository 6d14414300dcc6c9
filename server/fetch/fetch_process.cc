#include "server/fetch/fetch_process.h"

#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bulkhead/internal/v1/fetch.pb.h"
#include "server/arena/exit_codes.h"
#include "server/arena/worker_error.h"
#include "server/base/error.h"
#include "server/base/version.h"
#include "server/fetch/block_fetcher.h"
#include "server/fetch/object_lister.h"
#include "server/os/event_loop.h"
#include "server/os/process/process_usage.h"
#include "server/os/sandbox/sandbox.h"

namespace bulkhead {
namespace {

// Objects of one URL with wildcards. Their names and states take some 300 bytes each.
constexpr size_t kMostFound = 200'000;
// Two for each object that a stream has asked for, as far as the host allows.
constexpr uint64_t kMostOpenFiles = 524'288;
constexpr int64_t kCountsNs = 1'000'000'000;

const char* Getenv(const char* name) { return std::getenv(name); }

// Files of credentials, certificates and names that it must be able to read again.
std::vector<std::string> ReadablePaths() {
  std::vector<std::string> paths = {"/etc/ssl",
                                    "/etc/pki",
                                    "/usr/share/ca-certificates",
                                    "/etc/ca-certificates",
                                    "/etc/hosts",
                                    "/etc/resolv.conf",
                                    "/etc/nsswitch.conf",
                                    "/etc/host.conf",
                                    "/etc/gai.conf",
                                    "/etc/services",
                                    "/etc/protocols",
                                    "/run/systemd/resolve",
                                    "/run/resolvconf",
                                    "/etc/localtime",
                                    "/run/secrets",
                                    "/var/run/secrets"};
  for (const char* name :
       {"AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "GS_BEARER_TOKEN_FILE", "AWS_CA_BUNDLE",
        "SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE"}) {
    if (const char* path = Getenv(name); path != nullptr && *path != '\0') paths.emplace_back(path);
  }
  if (const char* home = Getenv("HOME"); home != nullptr && *home != '\0') {
    paths.push_back(absl::StrCat(home, "/.aws"));
  }
  return paths;
}

class FetchProcess {
 public:
  explicit FetchProcess(const PacketSocket& socket) : socket_(socket) {}

  int Run() {
    while (true) {
      const absl::StatusOr<Packet> packet = socket_.Receive(/*wait=*/store_ == nullptr);
      if (packet.ok()) {
        internal::v1::ToFetch message;
        if (!message.ParseFromString(packet->bytes) || !Handle(std::move(message), packet->fds)) {
          return kExitProtocol;
        }
        continue;
      }
      if (absl::IsOutOfRange(packet.status())) return 0;  // the service is gone
      if (!absl::IsUnavailable(packet.status())) return kExitProtocol;
      store_->Poll(absl::Seconds(1), socket_.fd());
      if (!SendCounts()) return kExitProtocol;
    }
  }

 private:
  // False if the message is not allowed.
  bool Handle(internal::v1::ToFetch message, const std::vector<UniqueFd>& fds) {
    if (message.has_begin()) return store_ == nullptr && Begin(message.begin());
    if (store_ == nullptr) return false;
    switch (message.message_case()) {
      case internal::v1::ToFetch::kFind:
        Find(message.find());
        return true;
      case internal::v1::ToFetch::kFetch:
        fetcher_->Fetch(message.fetch());
        return true;
      case internal::v1::ToFetch::kRelease:
        fetcher_->Release(message.release().id());
        lister_->Release(message.release().id());
        return true;
      case internal::v1::ToFetch::kList:
        if (message.list().folder().empty() == fds.empty()) return false;
        lister_->List(message.list(), fds.empty() ? -1 : fds[0].get());
        return true;
      case internal::v1::ToFetch::kPut:
        Put(std::move(*message.mutable_put()));
        return true;
      case internal::v1::ToFetch::kClose:
        for (const std::string& key : message.close().keys()) fetcher_->Close(key);
        return true;
      case internal::v1::ToFetch::kForgetRest:
        fetcher_->ForgetRest();
        return true;
      default:
        return false;
    }
  }

  bool Begin(const internal::v1::BeginFetching& begin) {
    SandboxOptions options;
    options.seccomp = begin.sandbox().seccomp();
    options.landlock = begin.sandbox().landlock();
    options.capabilities = begin.sandbox().capabilities();
    options.readable = ReadablePaths();
    options.scratch = begin.sandbox().scratch();
    options.fetches = true;
    options.max_files = kMostOpenFiles;
    options.max_file_bytes = std::numeric_limits<int64_t>::max();
    const std::vector<SandboxPart> sandbox = EnterSandbox(options);
    internal::v1::FromFetch message;
    message.mutable_begun()->set_version(kVersion);
    for (const SandboxPart& part : sandbox) {
      v1::SandboxPart& reported = *message.mutable_begun()->add_sandbox();
      reported.set_name(part.name);
      reported.set_active(part.active);
      reported.set_reason(part.reason);
    }
    absl::StatusOr<std::unique_ptr<ObjectStore>> store = OpenStore(begin.quota_bytes());
    if (!store.ok()) {
      // Everything that is asked for fails with this.
      *message.mutable_begun()->mutable_error() = ToWorkerError(store.status());
      return Send(message) && WaitForEnd();
    }
    store_ = *std::move(store);
    folder_.emplace(begin.folder(), begin.cache_bytes(), ObjectFolder::KeptFree(begin.folder()));
    fetcher_.emplace(*store_, *folder_, begin.spare_folder(),
                     [this](uint64_t id, const absl::Status& status) {
                       internal::v1::FromFetch done;
                       SetOutcome(*done.mutable_fetched(), id, status);
                       *done.mutable_fetched()->mutable_counts() = Counts();
                       Send(done);
                     });
    lister_.emplace(
        *store_, folder_->path(),
        [this](uint64_t id, uint64_t objects) { Listed(id, "", objects); },
        [this](uint64_t id, absl::StatusOr<std::string> key, uint64_t objects) {
          Listed(id, std::move(key), objects);
        });
    return Send(message);
  }

  static absl::StatusOr<std::unique_ptr<ObjectStore>> OpenStore(uint64_t quota_bytes) {
    if (quota_bytes > 0) BULKHEAD_RETURN_IF_ERROR(LimitDataMemory(quota_bytes));
    BULKHEAD_ASSIGN_OR_RETURN(StoreConfig config, StoreConfig::FromEnvironment(Getenv));
    return ObjectStore::Create(std::move(config), Getenv);
  }

  void Find(const internal::v1::FindObjects& find) {
    store_->Find(find.pattern(), kMostFound,
                 [this, id = find.id()](absl::StatusOr<std::vector<ObjectInfo>> found) {
                   internal::v1::FromFetch message;
                   SetOutcome(*message.mutable_found(), id, found.status());
                   if (!found.ok()) found.emplace();
                   for (const ObjectInfo& info : *found) {
                     internal::v1::FoundObject& object = *message.mutable_found()->add_objects();
                     object.mutable_object()->set_url(info.url);
                     object.mutable_object()->set_etag(info.etag);
                     object.mutable_object()->set_key(ObjectBlocks::KeyOf(
                         info.url, info.etag, {info.size_bytes, info.mtime_ns}));
                     object.set_size_bytes(info.size_bytes);
                     object.set_mtime_ns(info.mtime_ns);
                   }
                   Send(message);
                 });
  }

  void Listed(uint64_t id, absl::StatusOr<std::string> key, uint64_t objects) {
    internal::v1::FromFetch message;
    if (key.ok() && !key->empty()) {
      // The table belongs to the blocks: it is removed with them.
      const std::string path = absl::StrCat(folder_->path(), "/", *key);
      absl::Status kept;
      if (auto table = ObjectTable::Open(path); !table.ok()) {
        kept = table.status();
      } else {
        kept = folder_->Open(*key, {0, 0, *std::move(table)}).status();
      }
      if (!kept.ok()) {
        folder_->Remove(*key);
        key = CannotKeep(path, kept);
      }
    }
    SetOutcome(*message.mutable_listed(), id, key.status());
    if (key.ok()) message.mutable_listed()->set_key(*key);
    message.mutable_listed()->set_objects(objects);
    Send(message);
  }

  void Put(internal::v1::PutObject put) {
    store_->Put(put.url(), std::move(*put.mutable_content()),
                [this, id = put.id()](const absl::Status& status) {
                  internal::v1::FromFetch message;
                  SetOutcome(*message.mutable_put(), id, status);
                  Send(message);
                });
  }

  // What became of the request `id`.
  template <typename Reply>
  static void SetOutcome(Reply& reply, uint64_t id, const absl::Status& status) {
    reply.set_id(id);
    if (!status.ok()) *reply.mutable_error() = ToWorkerError(status);
  }

  internal::v1::FetchCounts Counts() const {
    internal::v1::FetchCounts counts;
    const StoreCounters& told = store_->counters();
    counts.set_requests(told.requests);
    counts.set_retries(told.retries);
    counts.set_hedges(told.hedges);
    counts.set_bytes_fetched(told.bytes_read);
    counts.set_cached_bytes(folder_->used_bytes());
    counts.set_spare_bytes(fetcher_->spare_bytes());
    return counts;
  }

  bool SendCounts() {
    if (MonotonicNanos() - counted_ns_ < kCountsNs) return true;
    counted_ns_ = MonotonicNanos();
    lister_->Report();
    internal::v1::FromFetch message;
    *message.mutable_counts() = Counts();
    std::string bytes = message.counts().SerializeAsString();
    if (bytes == counts_) return true;
    counts_ = std::move(bytes);
    return Send(message);
  }

  bool Send(const internal::v1::FromFetch& message) const {
    return socket_.Send(message.SerializeAsString()).ok();
  }

  bool WaitForEnd() const {
    while (socket_.Receive().ok()) {
    }
    return false;
  }

  const PacketSocket& socket_;
  std::unique_ptr<ObjectStore> store_;  // null: not begun
  std::optional<ObjectFolder> folder_;
  std::optional<BlockFetcher> fetcher_;
  std::optional<ObjectLister> lister_;
  int64_t counted_ns_ = 0;
  std::string counts_;  // the last ones, serialized
};

}  // namespace

int RunFetchProcess(const PacketSocket& socket) { return FetchProcess(socket).Run(); }

}  // namespace bulkhead
