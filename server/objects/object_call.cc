#include "server/objects/object_call.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "server/os/event_loop.h"

namespace bulkhead {
namespace {

constexpr size_t kFirstBytesKept = 64;
constexpr int kMostRegions = 3;
constexpr size_t kMostErrorBytes = size_t{64} << 10;

bool IsExpired(const HttpResponse& response, const StoreErrorBody& error,
               const StoreCredentials& credentials) {
  if (!credentials.bearer_token.empty()) return response.head.code == 401;
  return error.code == "ExpiredToken" || error.code == "TokenRefreshRequired";
}

// The region in which a store says the bucket is.
std::string NamedRegion(const HttpResponse& response, const StoreErrorBody& error) {
  const int code = response.head.code;
  if (code != 301 && code != 307 && code != 400 && code != 403) return "";
  const std::string header = response.head.Header("x-amz-bucket-region");
  const std::string& region = header.empty() ? error.region : header;
  const bool is_region = std::all_of(region.begin(), region.end(),
                                     [](char c) { return absl::ascii_isalnum(c) || c == '-'; });
  return is_region ? region : "";
}

}  // namespace

CallRunner::CallRunner(StoreConfig config, Parts parts, uint64_t seed)
    : config_(std::move(config)), parts_(std::move(parts)), backoff_(config_.limits, seed) {}

void CallRunner::Start(ObjectCall call) {
  const Id id = next_id_++;
  running_[id] = std::make_unique<Running>();
  running_[id]->call = std::move(call);
  running_[id]->started_ns = MonotonicNanos();
  parts_.timers->After(absl::ZeroDuration(), [this, id] { Attempt(id); });
}

CallRunner::Running* CallRunner::Find(Id id) {
  const auto found = running_.find(id);
  return found == running_.end() ? nullptr : found->second.get();
}

CredentialChain* CallRunner::ChainOf(const ObjectCall& call) const {
  const ObjectUrl::Scheme scheme = call.operation.target.scheme;
  if (scheme == ObjectUrl::Scheme::kS3) return parts_.s3;
  return scheme == ObjectUrl::Scheme::kGs ? parts_.gs : nullptr;
}

void CallRunner::Attempt(Id id) {
  Running& running = *Find(id);
  running.retry_timer = 0;
  ++running.attempts;
  if (running.attempts > 1) ++parts_.counters->retries;
  running.is_answered = false;
  running.stopped_by_head = false;
  CredentialChain* const chain = ChainOf(running.call);
  if (chain == nullptr) return Send(id);
  chain->Get([this, id](absl::StatusOr<StoreCredentials> credentials) {
    Running& running = *Find(id);
    if (credentials.ok()) {
      running.credentials = *std::move(credentials);
      return Send(id);
    }
    absl::Status error =
        Unreadable(credentials.status().code(), running.call.shown, credentials.status().message());
    if (error.code() == absl::StatusCode::kUnavailable) {
      return Retry(id, absl::ZeroDuration(), std::move(error));
    }
    Finish(id, std::move(error));
  });
}

void CallRunner::Send(Id id) {
  Running& running = *Find(id);
  const ObjectCall& call = running.call;
  StoreOperation operation = call.operation;
  if (call.headers != nullptr) {
    const NamedValues more = call.headers();
    operation.headers.insert(operation.headers.end(), more.begin(), more.end());
  }
  const auto known = regions_.find(operation.target.host);
  running.region = known == regions_.end() ? config_.region : known->second;
  HttpRequest request =
      MakeStoreRequest(config_, operation, running.region, running.credentials, parts_.clock());
  request.most_body_bytes = call.on_body == nullptr ? call.most_body_bytes : kMostErrorBytes;
  request.is_urgent = !running.requests.empty();
  const int number = running.next_request++;
  const auto started_ns = std::make_shared<int64_t>(0);
  request.on_start = [this, id, number, started_ns] {
    *started_ns = MonotonicNanos();
    OnStart(id, number);
  };
  request.on_head = [this, id, number, started_ns](const HttpHead& head) {
    return OnHead(id, number, *started_ns, head);
  };
  if (call.on_body != nullptr) {
    request.on_body = [this, id](absl::string_view part) {
      Running& running = *Find(id);
      parts_.counters->bytes_read += part.size();
      answered_ns_ = MonotonicNanos();
      return running.call.on_body(part);
    };
  }
  ++parts_.counters->requests;
  running.requests[number] = parts_.client->Send(
      std::move(request),
      [this, id, number](HttpResponse response) { OnDone(id, number, std::move(response)); });
}

void CallRunner::OnStart(Id id, int number) {
  Running& running = *Find(id);
  const bool is_first = running.requests.size() == 1;
  if (!running.call.may_hedge || !is_first) return;
  running.hedge_timer = parts_.timers->After(HedgeDelay(), [this, id] { Hedge(id); });
}

absl::Status CallRunner::OnHead(Id id, int number, int64_t started_ns, const HttpHead& head) {
  Running& running = *Find(id);
  first_byte_ns_.push_back(MonotonicNanos() - started_ns);
  if (first_byte_ns_.size() > kFirstBytesKept) first_byte_ns_.pop_front();
  running.is_answered = true;
  const int64_t silent_since_ns = std::exchange(answered_ns_, MonotonicNanos());
  const absl::Duration silence = absl::Nanoseconds(answered_ns_ - silent_since_ns);
  if (silence >= config_.limits.away) RetryNow();
  DropOthers(running, number);
  if (running.call.check_head == nullptr) return absl::OkStatus();
  absl::Status checked = running.call.check_head(head);
  running.stopped_by_head = !checked.ok();
  return checked;
}

void CallRunner::Hedge(Id id) {
  Running* const running = Find(id);
  if (running == nullptr) return;
  running->hedge_timer = 0;
  if (running->is_answered || running->requests.size() != 1) return;
  if (parts_.client->is_full()) {
    // It would wait behind others; and the first one that fails would wait for it.
    running->hedge_timer = parts_.timers->After(HedgeDelay(), [this, id] { Hedge(id); });
    return;
  }
  ++parts_.counters->hedges;
  Send(id);
}

absl::Duration CallRunner::HedgeDelay() const {
  if (first_byte_ns_.empty()) return config_.limits.least_hedge_delay;
  std::vector<int64_t> sorted(first_byte_ns_.begin(), first_byte_ns_.end());
  const auto middle = sorted.begin() + static_cast<ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return std::max(config_.limits.least_hedge_delay, 4 * absl::Nanoseconds(*middle));
}

void CallRunner::DropOthers(Running& running, int kept) {
  if (running.hedge_timer != 0) parts_.timers->Cancel(std::exchange(running.hedge_timer, 0));
  for (auto request = running.requests.begin(); request != running.requests.end();) {
    if (request->first == kept) {
      ++request;
      continue;
    }
    parts_.client->Cancel(request->second);
    request = running.requests.erase(request);
  }
}

void CallRunner::OnDone(Id id, int number, HttpResponse response) {
  Running& running = *Find(id);
  running.requests.erase(number);
  // The other request may still have an answer.
  if (!running.requests.empty() && IsTransient(response, "")) return;
  DropOthers(running, -1);
  Judge(id, std::move(response));
}

void CallRunner::Judge(Id id, HttpResponse response) {
  Running& running = *Find(id);
  const bool is_success = response.head.code / 100 == 2;
  running.was_unanswered =
      response.fault != HttpFault::kNone && response.fault != HttpFault::kStopped;
  absl::Status checked;
  if (response.fault == HttpFault::kStopped) {
    if (!running.stopped_by_head) return Finish(id, std::move(response.stopped));
    checked = std::move(response.stopped);
  } else if (response.fault != HttpFault::kNone || !is_success) {
    if (is_success && running.call.has_all != nullptr && running.call.has_all()) {
      return Finish(id, std::move(response));
    }
    return JudgeError(id, response);
  } else if (running.call.check != nullptr) {
    checked = running.call.check(response);
  }
  if (checked.ok()) return Finish(id, std::move(response));
  if (checked.code() != absl::StatusCode::kUnavailable) return Finish(id, std::move(checked));
  Retry(id, absl::ZeroDuration(), GaveUp(FactsOf(running), checked.message()));
}

void CallRunner::JudgeError(Id id, const HttpResponse& response) {
  Running& running = *Find(id);
  const StoreErrorBody error = ParseStoreError(response.body).value_or(StoreErrorBody{});
  const ObjectUrl& target = running.call.operation.target;
  RequestFacts facts = FactsOf(running);
  if (response.fault == HttpFault::kNone && target.is_bucket()) {
    const std::string region = NamedRegion(response, error);
    if (!region.empty() && region != running.region) {
      facts.region = region;
      if (running.regions_tried++ < kMostRegions) {
        regions_[target.host] = region;
        --running.attempts;
        return Attempt(id);
      }
    }
    if (!running.has_renewed && IsExpired(response, error, running.credentials)) {
      running.has_renewed = true;
      ChainOf(running.call)->Forget();
      --running.attempts;
      return Attempt(id);
    }
  }
  absl::Status status = StoreError(facts, response, error);
  if (!IsTransient(response, error.code)) {
    answered_ns_ = MonotonicNanos();
    return Finish(id, std::move(status));
  }
  Retry(id, RetryAfter(response.head, parts_.clock()), std::move(status));
}

void CallRunner::Retry(Id id, absl::Duration asked_for, absl::Status error) {
  Running& running = *Find(id);
  const absl::Duration passed = absl::Nanoseconds(MonotonicNanos() - running.started_ns);
  // A call that begins after a quiet time has its time before it.
  const absl::Duration silence =
      absl::Nanoseconds(MonotonicNanos() - std::max(answered_ns_, running.started_ns));
  const absl::Duration patience = config_.limits.patience;
  // Where many calls wait for their turn, each would take its time one after another.
  const bool is_silent = patience > absl::ZeroDuration() && silence >= patience;
  if (is_silent || (running.attempts >= config_.limits.attempts && passed >= patience)) {
    return Finish(id, std::move(error));
  }
  running.retry_timer = parts_.timers->After(backoff_.After(running.attempts, asked_for),
                                             [this, id] { Attempt(id); });
}

void CallRunner::RetryNow() {
  for (const auto& [id, waiting] : running_) {
    if (waiting->retry_timer == 0 || !waiting->was_unanswered) continue;
    parts_.timers->Cancel(waiting->retry_timer);
    waiting->retry_timer =
        parts_.timers->After(absl::ZeroDuration(), [this, id = id] { Attempt(id); });
  }
}

void CallRunner::Finish(Id id, absl::StatusOr<HttpResponse> result) {
  const std::unique_ptr<Running> running = std::move(running_[id]);
  running_.erase(id);
  running->call.done(std::move(result));
}

RequestFacts CallRunner::FactsOf(const Running& running) const {
  const bool writes = running.call.operation.method == "PUT";
  return {running.call.shown,
          running.attempts,
          running.call.operation.target.scheme,
          writes,
          running.credentials.from,
          ""};
}

}  // namespace bulkhead
