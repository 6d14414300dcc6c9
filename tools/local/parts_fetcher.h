#pragma once

#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "server/data/found_objects.h"
#include "server/source/objects.h"

namespace bulkhead::tools {

// Brings parts of objects to this host. Thread-safe, if each thread uses its own requests.
class PartsFetcher {
 public:
  // The parts are here from Await until this goes.
  class Request {
   public:
    virtual ~Request() = default;
    // Blocks for the network. Errors: those of the store.
    virtual absl::Status Await() = 0;
  };

  virtual ~PartsFetcher() = default;
  // Begins. The request must not outlive this.
  virtual std::unique_ptr<Request> Fetch(const FoundObjects::Wanted& wanted,
                                         ObjectFetcher::Trust trust) const = 0;
};

// By the bulkhead-fetch of this process.
std::shared_ptr<const PartsFetcher> FetchHere(std::shared_ptr<const FoundObjects> objects);

struct MissingPart {
  ObjectPart part;
  bool is_wrong = false;
};

// What NOT_FETCHED says is missing; absent: it is another status.
std::optional<MissingPart> MissingPartOf(const absl::Status& status);

}  // namespace bulkhead::tools
