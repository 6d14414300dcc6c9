#pragma once

#include <cstdint>
#include <functional>
#include <map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bulkhead/internal/v1/fetch.pb.h"
#include "server/os/files/fd_parcel.h"

namespace bulkhead {

// What was asked of bulkhead-fetch: requests that have no answer, and parts that are kept until
// they are released. Belongs to one thread, on which callbacks are called.
class FetchRequests {
 public:
  // The message that answers, or its error. A listing is answered several times: the last time with
  // its key.
  using Answered = std::function<void(const absl::StatusOr<internal::v1::FromFetch>&)>;
  struct Request {
    internal::v1::ToFetch message;
    SharedFd fd;  // goes with the message
    Answered answered;
    bool was_answered = false;  // its parts are kept
  };

  const Request& Add(uint64_t id, Request request) { return requests_[id] = std::move(request); }
  // False if there is none.
  bool Remove(uint64_t id) { return requests_.erase(id) > 0; }
  // Fails those that were not answered, and forgets all.
  void FailAll(const absl::Status& status);

  // All of them for a process that has just begun, which looks at the parts that are kept.
  const std::map<uint64_t, Request>& ForAnother();
  // Hands an answer to whoever asked. False if it tells nothing new: nobody waits for it, or it was
  // given by an earlier process too.
  bool Answer(const internal::v1::FromFetch& message);

 private:
  template <typename Reply>
  bool Answer(const Reply& reply, internal::v1::ToFetch::MessageCase asked, bool is_last,
              const internal::v1::FromFetch& message);

  std::map<uint64_t, Request> requests_;
};

}  // namespace bulkhead
