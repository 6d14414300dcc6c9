#include "server/objects/object_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/base/error.h"
#include "server/base/paths/object_url.h"
#include "server/base/random.h"
#include "server/objects/credentials/credential_providers.h"
#include "server/objects/key_pattern.h"
#include "server/objects/object_find.h"
#include "server/objects/object_read.h"
#include "server/os/event_loop.h"

namespace bulkhead {

// In the order in which its parts are made; the client goes first, and with it all callbacks.
struct ObjectStore::State {
  State(const StoreConfig& config, const Environment& environment, std::unique_ptr<HttpClient> http)
      : s3(S3Providers(environment, config.region, http.get()), absl::Now),
        gs(GsProviders(environment, http.get()), absl::Now),
        calls(config, {http.get(), &timers, &s3, &gs, absl::Now, &counters},
              MixBits(static_cast<uint64_t>(MonotonicNanos()),
                      static_cast<uint64_t>(absl::ToUnixNanos(absl::Now())))),
        client(std::move(http)) {}

  // Calls `done` from Poll.
  template <typename Done>
  void Answer(const Done& done, const absl::Status& status) {
    timers.After(absl::ZeroDuration(), [done, status] { done(status); });
  }

  StoreCounters counters;
  Timers timers;
  CredentialChain s3;
  CredentialChain gs;
  CallRunner calls;
  std::unique_ptr<HttpClient> client;
};

ObjectStore::ObjectStore(std::unique_ptr<State> state) : state_(std::move(state)) {}
ObjectStore::~ObjectStore() = default;

absl::StatusOr<std::unique_ptr<ObjectStore>> ObjectStore::Create(StoreConfig config,
                                                                 Environment environment) {
  BULKHEAD_ASSIGN_OR_RETURN(std::unique_ptr<HttpClient> client, HttpClient::Create(config));
  return std::unique_ptr<ObjectStore>(
      new ObjectStore(std::make_unique<State>(config, environment, std::move(client))));
}

void ObjectStore::Find(std::string pattern, size_t most, OnFound done) {
  const absl::StatusOr<ObjectUrl> target = ParseObjectUrl(pattern);
  if (!target.ok()) return state_->Answer(done, target.status());
  if (target->is_bucket() && KeyPattern(target->key).has_wildcard()) {
    return FindMatches(&state_->calls, pattern, *target, most, std::move(done));
  }
  FindOne(&state_->calls, pattern, *target, std::move(done));
}

void ObjectStore::List(const ListQuery& query, OnListed done) {
  absl::StatusOr<ObjectUrl> target = ParseFolderUrl(query.folder);
  if (target.ok() && !target->is_bucket()) {
    target = MakeError(absl::StatusCode::kInvalidArgument, reason::kSpecInvalid,
                       absl::StrCat(ShownUrl(query.folder),
                                    ": servers of http have no listing; write an image_list"));
  }
  if (!target.ok()) return state_->Answer(done, target.status());
  ListPage(&state_->calls, query, *target, std::move(done));
}

void ObjectStore::Read(const ObjectInfo& object, uint64_t begin, uint64_t end, Sink sink,
                       OnRead done) {
  const absl::StatusOr<ObjectUrl> target = ParseObjectUrl(object.url);
  absl::Status status = target.status();
  if (status.ok() && (begin > end || end > object.size_bytes)) {
    status = MakeError(absl::StatusCode::kInvalidArgument, reason::kInvalidArgument,
                       absl::StrCat(ShownUrl(object.url), ": has ", object.size_bytes,
                                    " bytes, so [", begin, ", ", end, ") is no range of it"));
  }
  if (!status.ok() || begin == end) return state_->Answer(done, status);
  ReadRange(&state_->calls, object, *target, begin, end, std::move(sink), std::move(done));
}

void ObjectStore::Put(const std::string& url, std::string bytes, OnPut done) {
  const absl::StatusOr<ObjectUrl> target = ParseObjectUrl(url);
  absl::Status status = target.status();
  if (status.ok() && !target->is_bucket()) {
    status = MakeError(absl::StatusCode::kInvalidArgument, reason::kSpecInvalid,
                       absl::StrCat(ShownUrl(url),
                                    ": objects of http and https are only read; "
                                    "write to s3:// or gs://"));
  }
  if (!status.ok()) return state_->Answer(done, status);
  ObjectCall call;
  call.shown = ShownUrl(url);
  call.operation.method = "PUT";
  call.operation.target = *target;
  call.operation.headers = {{"Content-Type", "application/octet-stream"}};
  call.operation.body = std::move(bytes);
  call.done = [done = std::move(done)](const absl::StatusOr<HttpResponse>& response) {
    done(response.status());
  };
  state_->calls.Start(std::move(call));
}

bool ObjectStore::Poll(absl::Duration timeout, int extra_fd) {
  if (state_->timers.RunDue()) timeout = absl::ZeroDuration();
  const bool is_readable =
      state_->client->Poll(std::min(timeout, state_->timers.UntilNext()), extra_fd);
  state_->timers.RunDue();
  return is_readable;
}

const StoreCounters& ObjectStore::counters() const { return state_->counters; }

}  // namespace bulkhead
