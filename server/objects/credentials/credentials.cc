#include "server/objects/credentials/credentials.h"

#include <algorithm>
#include <utility>

namespace bulkhead {
namespace {

constexpr absl::Duration kRenewBefore = absl::Minutes(5);
constexpr absl::Duration kAskAgainAfter = absl::Minutes(5);
constexpr absl::Duration kAskAgainAfterError = absl::Seconds(10);

}  // namespace

CredentialChain::CredentialChain(std::vector<CredentialProvider> providers, Clock clock)
    : providers_(std::move(providers)), clock_(std::move(clock)) {}

bool CredentialChain::IsFresh() {
  if (!kept_.has_value() || clock_() >= ask_again_) return false;
  return kept_from_ == nullptr || kept_from_->has_changed == nullptr || !kept_from_->has_changed();
}

void CredentialChain::Get(Done done) {
  if (waiting_.empty() && IsFresh()) return done(*kept_);
  waiting_.push_back(std::move(done));
  if (waiting_.size() == 1) Ask(0);
}

void CredentialChain::Forget() { kept_.reset(); }

void CredentialChain::Ask(size_t provider) {
  if (provider == providers_.size()) {
    kept_from_ = nullptr;
    ask_again_ = clock_() + kAskAgainAfter;
    return Answer(StoreCredentials{});
  }
  const CredentialProvider* const asked = &providers_[provider];
  asked->find([this, provider, asked](absl::StatusOr<std::optional<StoreCredentials>> found) {
    const absl::Time now = clock_();
    if (!found.ok()) {
      const bool may_use_old = kept_.has_value() && kept_from_ == asked && kept_->expires > now;
      if (may_use_old) ask_again_ = now + kAskAgainAfterError;
      return Answer(may_use_old ? absl::StatusOr<StoreCredentials>(*kept_) : found.status());
    }
    if (!found->has_value()) return Ask(provider + 1);
    kept_from_ = asked;
    // Those that live shortly are renewed halfway.
    const absl::Duration left = (*found)->expires - now;
    ask_again_ = (*found)->expires - std::min(kRenewBefore, left / 2);
    Answer(**std::move(found));
  });
}

void CredentialChain::Answer(absl::StatusOr<StoreCredentials> answer) {
  if (answer.ok()) kept_ = *answer;
  for (const Done& done : std::exchange(waiting_, {})) done(answer);
}

}  // namespace bulkhead
