#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "bulkhead/internal/v1/fetch.pb.h"
#include "server/blocks/object_blocks.h"
#include "server/fetch/object_folder.h"
#include "server/objects/object_store.h"

namespace bulkhead {

// Brings the blocks that requests want to this host, each once:
//
//   Fetch ─▶ missing blocks ─▶ reads of a store ─▶ cache, or the spare folder if it is full ─▶ done
//     └──────── all there ───────────────────────────────────────────────────────────────────▶ done
//
// An object of a table is a block, and read at once. The blocks of a request stay until Release:
// those in the cache for longer, those in the spare folder no longer, unless another request wants
// them. Used by one thread, the store's.
class BlockFetcher {
 public:
  using Done = std::function<void(uint64_t id, const absl::Status& status)>;

  // The longest read of a store; a long part is read by several at a time.
  static constexpr uint64_t kReadBytes = uint64_t{4} << 20;
  // Reads that one request waits for at a time; others begin as these end.
  static constexpr size_t kMostReads = 128;
  // Missing blocks with less than this between them are read at once: it costs less than a request.
  static constexpr uint64_t kGapBytes = uint64_t{64} << 10;

  // `done` is called once for each Fetch, by Fetch itself or from the store's Poll.
  BlockFetcher(ObjectStore& store, ObjectFolder& cache, std::string spare_folder, Done done);
  ~BlockFetcher();

  void Fetch(const internal::v1::FetchParts& request);
  // Of a request that is done or not. An unknown one is ignored.
  void Release(uint64_t id);
  // Removes what is in the spare folder and no request wants.
  void ForgetRest();
  // The object is no longer in use once no request wants it; the next one opens it again.
  void Close(const std::string& key);

  uint64_t spare_bytes() const { return spare_bytes_; }

 private:
  struct Object;
  struct Read;
  struct Request;

  using Trust = internal::v1::FetchParts::Trust;
  // Without full trust its files may have been removed.
  absl::StatusOr<Object*> Find(const internal::v1::FetchParts::Part& part, Trust trust);
  // Whether the block is there.
  static bool IsThere(const Object& object, uint64_t block, Trust trust);
  // Of many objects few are wanted at a time: the others keep no file of the spare folder open.
  // One that is no longer in use is destroyed.
  void CloseIfIdle(Object& object);
  // Makes blocks [begin, end) absent, whoever wants them.
  void Forget(Object& object, uint64_t begin, uint64_t end);
  // Begins reads of what the request still misses, and finishes it if nothing is left.
  void Advance(const std::shared_ptr<Request>& request);
  // Waits for the block `begin` if it is on its way, or reads blocks from it on, up to `end`.
  // Returns the first block behind these.
  uint64_t Want(Object& object, uint64_t begin, uint64_t end,
                const std::shared_ptr<Request>& request);
  void Begin(Object& object, uint64_t begin, uint64_t end, const std::shared_ptr<Request>& request);
  absl::Status Take(Read& read, uint64_t offset, absl::string_view bytes);
  // The block `next` of a read is written.
  void EndBlock(Read& read, bool was_there);
  void End(Read& read, const absl::Status& status);
  void Finish(Request& request, const absl::Status& status);
  // A block of the spare folder is about to go.
  void Uncount(const ObjectBlocks& spare, uint64_t block);
  // Drops blocks of the spare folder that nobody wants.
  void Drop(Object& object, uint64_t begin, uint64_t end);

  ObjectStore& store_;
  ObjectFolder& cache_;
  const std::string spare_folder_;
  const Done done_;
  std::map<std::string, std::unique_ptr<Object>> objects_;  // by key
  std::map<uint64_t, std::shared_ptr<Request>> requests_;   // until they are released
  uint64_t spare_bytes_ = 0;
  // Against calls of the store after the end of this.
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

// Says that the bytes of the object `url` cannot be kept on this host, and what to do:
// FILE_UNREADABLE with the code of `why`.
absl::Status CannotKeep(absl::string_view url, const absl::Status& why);

}  // namespace bulkhead
