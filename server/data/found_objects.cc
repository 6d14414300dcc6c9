#include "server/data/found_objects.h"

#include <utility>
#include <vector>

namespace bulkhead {

FoundObjects::FoundObjects(ObjectFetcher* fetcher, const internal::v1::ResolvedSource& resolved)
    : fetcher_(fetcher) {
  Add(resolved);
  for (const internal::v1::ResolvedSource& mixed : resolved.mixed()) Add(mixed);
  if (empty()) return;
  std::vector<std::string> keys;
  for (const auto& [key, part] : by_key_) keys.push_back(key);
  use_ = fetcher_->Use(std::move(keys));
}

void FoundObjects::Add(const internal::v1::ResolvedSource& source) {
  for (const internal::v1::ResolvedFile& file : source.files()) {
    // The list of an image source is not read again.
    if (file.has_table()) {
      *by_key_[file.table().key()].mutable_table() = file.table();
    } else if (file.has_object()) {
      by_key_.emplace(file.object().key(), PartOf(file));
    }
  }
}

uint64_t FoundObjects::Fetch(const Wanted& wanted, ObjectFetcher::Trust trust,
                             ObjectFetcher::Done done) const {
  ObjectFetcher::Parts parts;
  for (const internal::v1::ObjectParts& part : wanted) {
    const auto found = by_key_.find(part.key());
    if (found == by_key_.end()) continue;  // a worker's word is not trusted
    internal::v1::FetchParts::Part& added = *parts.Add() = found->second;
    *added.mutable_bounds() = part.bounds();
  }
  return fetcher_->Fetch(parts, trust, std::move(done));
}

}  // namespace bulkhead
