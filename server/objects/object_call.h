#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/objects/credentials/credentials.h"
#include "server/objects/curl.h"
#include "server/objects/retry.h"
#include "server/objects/store_config.h"
#include "server/objects/store_error.h"
#include "server/objects/store_request.h"
#include "server/os/timers.h"

namespace bulkhead {

// What was asked of stores so far.
struct StoreCounters {
  uint64_t requests = 0;  // all that were sent, but those for credentials
  uint64_t retries = 0;   // of them, attempts after the first one
  uint64_t hedges = 0;    // of them, second requests for a range that was late
  uint64_t bytes_read = 0;
};

// One thing that is asked of a store, with as many requests as it takes.
struct ObjectCall {
  std::string shown;         // for messages
  StoreOperation operation;  // its headers are those of all attempts
  // The headers that only the next attempt has. Null: none.
  std::function<NamedValues()> headers;
  // Judges the head of an answer 2xx, and its whole. UNAVAILABLE: the message is the cause why it
  // is asked again. Any other error ends the call. Null: OK.
  std::function<absl::Status(const HttpHead&)> check_head;
  std::function<absl::Status(const HttpResponse&)> check;
  // Gets the body of an answer 2xx; an error ends the call. Null: the body is collected.
  std::function<absl::Status(absl::string_view)> on_body;
  // Whether a transfer that ended early was enough. Null: never.
  std::function<bool()> has_all;
  size_t most_body_bytes = size_t{1} << 20;
  bool may_hedge = false;
  // Called once, from Poll.
  std::function<void(absl::StatusOr<HttpResponse>)> done;
};

// Runs calls: gets credentials, signs, sends, and tries again what may pass (retry.h), at least
// `limits.attempts` times and for at least `limits.patience`. A call ends with fewer attempts once
// the store has been silent for that time since the call began: no call has had an answer 2xx or
// part of one, or an error that does not pass. Without counting as attempts, it asks the region of
// a bucket that a store names, and renews credentials once that a store calls expired.
//
// Once there is an answer after `limits.away` without one, calls whose last attempt had none are
// tried at once, without the rest of their wait.
//
// A call that may hedge and has no answer after max(1 s, 4 × the median time to the first byte of
// the last 64 requests) is sent a second time; the first answer counts, the other is dropped.
//
// One thread uses a runner. What it is made with outlives it, but is destroyed before it runs
// again.
class CallRunner {
 public:
  struct Parts {
    HttpClient* client = nullptr;
    Timers* timers = nullptr;
    CredentialChain* s3 = nullptr;
    CredentialChain* gs = nullptr;
    CredentialChain::Clock clock;
    StoreCounters* counters = nullptr;
  };

  CallRunner(StoreConfig config, Parts parts, uint64_t seed);

  void Start(ObjectCall call);

 private:
  using Id = uint64_t;
  // A call under way.
  struct Running {
    ObjectCall call;
    int attempts = 0;
    int64_t started_ns = 0;
    StoreCredentials credentials;  // of this attempt
    std::string region;            // of this attempt
    bool has_renewed = false;
    int regions_tried = 1;
    std::map<int, HttpClient::Id> requests;  // of this attempt, by number
    int next_request = 0;
    bool is_answered = false;      // a request of this attempt has its head
    bool stopped_by_head = false;  // check_head refused it
    Timers::Id hedge_timer = 0;
    Timers::Id retry_timer = 0;
    bool was_unanswered = false;  // the last attempt: the network failed
  };

  Running* Find(Id id);
  CredentialChain* ChainOf(const ObjectCall& call) const;
  void Attempt(Id id);
  void Send(Id id);
  void OnStart(Id id, int number);
  absl::Status OnHead(Id id, int number, int64_t started_ns, const HttpHead& head);
  void OnDone(Id id, int number, HttpResponse response);
  void Hedge(Id id);
  // Drops the requests of this attempt but number `kept`.
  void DropOthers(Running& running, int kept);
  void Judge(Id id, HttpResponse response);
  void JudgeError(Id id, const HttpResponse& response);
  // Asks again later; after the last attempt ends the call with `error`.
  void Retry(Id id, absl::Duration asked_for, absl::Status error);
  // The store answers again.
  void RetryNow();
  void Finish(Id id, absl::StatusOr<HttpResponse> result);
  RequestFacts FactsOf(const Running& running) const;
  absl::Duration HedgeDelay() const;

  const StoreConfig config_;
  const Parts parts_;
  Backoff backoff_;
  std::map<Id, std::unique_ptr<Running>> running_;
  Id next_id_ = 1;
  std::map<std::string, std::string> regions_;  // of buckets, where a store said one
  std::deque<int64_t> first_byte_ns_;           // of the last requests
  int64_t answered_ns_ = 0;  // the last answer that was no fault which may pass, or part of one
};

}  // namespace bulkhead
