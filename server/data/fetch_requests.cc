#include "server/data/fetch_requests.h"

#include <utility>

#include "server/arena/worker_error.h"

namespace bulkhead {

using internal::v1::FetchParts;
using internal::v1::FromFetch;
using internal::v1::ToFetch;

void FetchRequests::FailAll(const absl::Status& status) {
  for (auto& [id, request] : std::exchange(requests_, {})) {
    if (!request.was_answered) request.answered(status);
  }
}

const std::map<uint64_t, FetchRequests::Request>& FetchRequests::ForAnother() {
  for (auto& [id, request] : requests_) {
    // What is kept may have been written by a process that died at it.
    if (request.message.has_fetch() &&
        (request.was_answered ||
         request.message.fetch().trust() == FetchParts::TRUST_UNSPECIFIED)) {
      request.message.mutable_fetch()->set_trust(FetchParts::TRUST_CHECKSUMS);
    }
  }
  return requests_;
}

bool FetchRequests::Answer(const FromFetch& message) {
  switch (message.message_case()) {
    case FromFetch::kFound:
      return Answer(message.found(), ToFetch::kFind, /*is_last=*/true, message);
    case FromFetch::kListed:
      return Answer(message.listed(), ToFetch::kList, !message.listed().key().empty(), message);
    case FromFetch::kPut:
      return Answer(message.put(), ToFetch::kPut, /*is_last=*/true, message);
    case FromFetch::kFetched:
      return Answer(message.fetched(), ToFetch::kFetch, /*is_last=*/false, message);
    default:
      return false;
  }
}

template <typename Reply>
bool FetchRequests::Answer(const Reply& reply, ToFetch::MessageCase asked, bool is_last,
                           const FromFetch& message) {
  const auto at = requests_.find(reply.id());
  if (at == requests_.end() || at->second.message.message_case() != asked) return false;
  if (at->second.was_answered) return false;
  const Answered answered = at->second.answered;
  if (asked == ToFetch::kFetch) {
    at->second.was_answered = true;
  } else if (is_last || reply.has_error()) {
    requests_.erase(at);
  }
  answered(reply.has_error() ? absl::StatusOr<FromFetch>(StatusFromWorkerError(reply.error()))
                             : message);
  return true;
}

}  // namespace bulkhead
