#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "bulkhead/internal/v1/worker.pb.h"
#include "server/data/object_fetcher.h"

namespace bulkhead {

// The objects and tables that the records of a source are read from, in use while this lives.
// Immutable; thread-safe.
class FoundObjects {
 public:
  // `fetcher` must outlive this; it may be null if `resolved` has no objects.
  FoundObjects(ObjectFetcher* fetcher, const internal::v1::ResolvedSource& resolved);

  bool empty() const { return by_key_.empty(); }

  // ObjectFetcher::Fetch of those among `wanted` that are objects of the source.
  using Wanted = google::protobuf::RepeatedPtrField<internal::v1::ObjectParts>;
  uint64_t Fetch(const Wanted& wanted, ObjectFetcher::Trust trust, ObjectFetcher::Done done) const;
  void Release(uint64_t id) const { fetcher_->Release(id); }

 private:
  void Add(const internal::v1::ResolvedSource& source);

  ObjectFetcher* const fetcher_;
  std::map<std::string, internal::v1::FetchParts::Part> by_key_;  // without bounds
  std::shared_ptr<void> use_;
};

}  // namespace bulkhead
