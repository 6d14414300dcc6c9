#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/objects/signature_v4.h"

namespace bulkhead {

// What a request is allowed by. All of it but `from` is secret.
struct StoreCredentials {
  SigningKey key;            // signs, unless its parts are empty
  std::string bearer_token;  // goes in the header Authorization, unless empty
  absl::Time expires = absl::InfiniteFuture();
  std::string from;  // for messages: "the environment"; empty: there are none

  bool is_anonymous() const { return key.access_key_id.empty() && bearer_token.empty(); }
};

// One place where credentials may be. One thread uses a provider.
struct CredentialProvider {
  // Absent: there are none in this place, so the next one is asked. An error: there should be, as
  // the place is named, and they cannot be had. It never holds a secret.
  using Done = std::function<void(absl::StatusOr<std::optional<StoreCredentials>>)>;
  // Looks, and calls `done` once: at once, or from HttpClient::Poll.
  std::function<void(const Done& done)> find;
  // Whether what was last found is out of date, though it has not expired. Null: it never is.
  std::function<bool()> has_changed;
};

// The credentials of one kind of store: those of the first provider that has some. They are kept
// until they change; they are renewed from five minutes before they expire, and while that fails
// the old ones are used. With no provider that has some, requests are not signed; providers are
// asked again five minutes later.
//
// One thread uses a chain. It outlives the client that its providers ask.
class CredentialChain {
 public:
  using Done = std::function<void(absl::StatusOr<StoreCredentials>)>;
  using Clock = std::function<absl::Time()>;

  CredentialChain(std::vector<CredentialProvider> providers, Clock clock);

  // Calls `done` once: at once, or when a provider answers. Errors are the providers'.
  void Get(Done done);
  // Drops what is kept, because a store says that it has expired.
  void Forget();

 private:
  bool IsFresh();
  void Ask(size_t provider);
  void Answer(absl::StatusOr<StoreCredentials> answer);

  const std::vector<CredentialProvider> providers_;
  const Clock clock_;
  std::optional<StoreCredentials> kept_;
  const CredentialProvider* kept_from_ = nullptr;  // null: no provider has any
  absl::Time ask_again_ = absl::InfinitePast();
  std::vector<Done> waiting_;  // not empty: a provider is being asked
};

}  // namespace bulkhead
