#include "server/source/index/record_split.h"

#include <iterator>
#include <map>
#include <string>

#include "server/base/random.h"
#include "server/source/file.h"

namespace bulkhead {
namespace {

// The first hash that is not below a share of all hashes. `share` < 1.
uint64_t HashAt(double share) { return static_cast<uint64_t>(share * 0x1p64); }

// Of a file's name, however it is spelled: an image that a list names twice must not lie in two
// parts. Part of the data format: it never changes.
uint64_t NameHash(absl::string_view name) { return StableHash(PlainPath(std::string(name))); }

}  // namespace

RecordSplit::RecordSplit(const v1::Split& split)
    : salt_(MixBits(split.salt(), StableHash("split"))) {
  const std::map<std::string, double> parts(split.parts().begin(), split.parts().end());
  double before = 0;
  for (auto part = parts.begin(); part != parts.end(); ++part) {
    const double end = before + part->second;
    // The last part takes what rounding leaves; a sum may reach 1 a part too early.
    const bool takes_rest = std::next(part) == parts.end() || end >= 1;
    if (part->first == split.use() && before < 1) {
      begin_ = HashAt(before);
      is_last_ = takes_rest;
      if (!is_last_) end_ = HashAt(end);
      return;
    }
    before = end;
  }
}

bool RecordSplit::Contains(const RecordIdentity& identity) const {
  const uint64_t hash = MixBits(MixBits(NameHash(identity.name), identity.number), salt_);
  return hash >= begin_ && (is_last_ || hash < end_);
}

}  // namespace bulkhead
