#include "server/fetch/object_lister.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/index_header.h"
#include "server/base/paths/object_url.h"
#include "server/blocks/object_table.h"
#include "server/fetch/block_fetcher.h"
#include "server/os/files/filesystem.h"
#include "server/os/memory/memory_map.h"

namespace bulkhead {
namespace {

// Listings of one task at a time, and questions for single objects.
constexpr size_t kListings = 32;
constexpr size_t kQuestions = 64;
// Folders that wait for their listing; the first level goes on when there are fewer.
constexpr size_t kMostWaiting = 2000;
// Of so many URLs in one folder a listing costs less than a question for each.
constexpr size_t kFewUrls = 8;
// So many URLs of one folder are looked for by one listing after another.
constexpr size_t kManyUrls = 5000;
// Starts of URLs are kept as numbers of 32 bits.
constexpr uint64_t kMostUrlBytes = uint64_t{4} << 30;

ObjectTable::Entry EntryOf(absl::string_view name, const ListedObject& object) {
  return {name, object.etag, object.size_bytes, object.mtime_ns, 0};
}

// A key that is less than `key`, with few keys between them.
std::string JustBefore(absl::string_view key) {
  std::string before(key);
  const auto last = static_cast<unsigned char>(before.back());
  if (last > ' ' && last < 0x80) {
    before.back() = static_cast<char>(last - 1);
    return before + "~~~~";
  }
  // A whole character.
  while (before.size() > 1 && (static_cast<unsigned char>(before.back()) & 0xC0) == 0x80) {
    before.pop_back();
  }
  before.pop_back();
  return before;
}

absl::Status TooMany(absl::string_view folder) {
  return MakeError(absl::StatusCode::kResourceExhausted, reason::kSpecInvalid,
                   absl::StrCat(folder.empty() ? "the list" : ShownUrl(folder), ": has more than ",
                                ObjectTable::kMostObjects,
                                " objects, or 4 GiB of URLs; read parts of it as sources of a "
                                "mixture, or pack the images as shards (bulkhead pack)"));
}

bool IsMissing(const absl::Status& status) { return absl::IsNotFound(status); }

}  // namespace

class ObjectLister::Task : public std::enable_shared_from_this<Task> {
 public:
  Task(ObjectLister& lister, uint64_t id, std::string base)
      : lister_(lister), id_(id), base_(std::move(base)) {}
  virtual ~Task() = default;

  void Start() {
    absl::StatusOr<ObjectTableWriter> writer = ObjectTableWriter::Create(lister_.folder_, base_);
    if (!writer.ok()) return Finish(CannotKeep(base_, writer.status()));
    writer_.emplace(*std::move(writer));
    if (absl::Status begun = Begin(); !begun.ok()) return Finish(begun);
    GoOn();
  }
  void Report() const { lister_.progress_(id_, writer_.has_value() ? writer_->count() : 0); }
  // Answers to it are ignored from now on.
  void Drop() { is_done_ = true; }

 protected:
  virtual absl::Status Begin() = 0;
  // Asks for what can be asked now; false if there is nothing left to ask for.
  virtual bool Ask() = 0;
  // What is said if the table is empty.
  virtual absl::Status Empty() const { return absl::OkStatus(); }

  ObjectStore& store() const { return lister_.store_; }
  size_t running() const { return running_; }

  // Calls `take` with a listing's page, unless this has ended.
  void List(const ListQuery& query, std::function<absl::Status(absl::StatusOr<Listing>)> take) {
    ++running_;
    store().List(query, [this, self = shared_from_this(),
                         take = std::move(take)](absl::StatusOr<Listing> page) {
      if (is_done_) return;
      --running_;
      Went(take(std::move(page)));
    });
  }

  // Adds the object, if it exists.
  void Question(absl::string_view url, absl::string_view name) {
    ++running_;
    // Of a bucket's key with wildcards, which are meant as they are.
    const auto parsed = ParseObjectUrl(url);
    const bool escapes =
        parsed.ok() && parsed->is_bucket() && parsed->key.find_first_of("*?[") != url.npos;
    store().Find(escapes ? EscapedUrl(url) : std::string(url), 1,
                 [this, self = shared_from_this(),
                  name](const absl::StatusOr<std::vector<ObjectInfo>>& found) {
                   if (is_done_) return;
                   --running_;
                   absl::Status status = found.status();
                   if (IsMissing(status)) status = absl::OkStatus();
                   for (size_t i = 0; found.ok() && i < found->size(); ++i) {
                     const ObjectInfo& info = (*found)[i];
                     status = Add({name, info.etag, info.size_bytes, info.mtime_ns, 0});
                   }
                   Went(status);
                 });
  }

  absl::Status Add(const ObjectTable::Entry& entry) {
    if (writer_->count() == ObjectTable::kMostObjects) return TooMany(base_);
    const absl::Status added = writer_->Add(entry);
    return added.ok() ? added : CannotKeep(absl::StrCat(base_, entry.name), added);
  }

 private:
  void Went(const absl::Status& status) {
    if (!status.ok()) return Finish(status);
    GoOn();
  }

  void GoOn() {
    if (Ask() || running_ > 0) return;
    if (writer_->count() == 0) {
      if (const absl::Status empty = Empty(); !empty.ok()) return Finish(empty);
    }
    absl::StatusOr<std::string> key = writer_->Finish();
    if (!key.ok()) return Finish(CannotKeep(base_, key.status()));
    Finish(std::move(key));
  }

  void Finish(absl::StatusOr<std::string> key) {
    if (std::exchange(is_done_, true)) return;
    const std::shared_ptr<Task> self = shared_from_this();
    lister_.tasks_.erase(id_);
    lister_.done_(id_, std::move(key), writer_.has_value() ? writer_->count() : 0);
  }

  ObjectLister& lister_;
  const uint64_t id_;
  const std::string base_;
  std::optional<ObjectTableWriter> writer_;
  size_t running_ = 0;
  bool is_done_ = false;
};

// All objects below a folder.
class ObjectLister::FolderTask final : public Task {
 public:
  FolderTask(ObjectLister& lister, uint64_t id, const std::string& folder)
      : Task(lister, id, folder), folder_(folder) {}

 private:
  absl::Status Begin() override { return absl::OkStatus(); }

  bool Ask() override {
    if (first_level_left_ && !first_level_runs_ && waiting_.size() < kMostWaiting) {
      first_level_runs_ = true;
      List({folder_, /*one_level=*/true, "", first_level_token_},
           [this](absl::StatusOr<Listing> page) { return TakeFirstLevel(std::move(page)); });
    }
    while (!waiting_.empty() && running() < kListings) {
      AskFor(std::move(waiting_.front()), "");
      waiting_.pop_front();
    }
    return first_level_left_ || !waiting_.empty();
  }

  absl::Status TakeFirstLevel(absl::StatusOr<Listing> page) {
    BULKHEAD_RETURN_IF_ERROR(page.status());
    first_level_runs_ = false;
    first_level_token_ = page->next_token;
    first_level_left_ = !first_level_token_.empty();
    for (std::string& prefix : page->prefixes) {
      if (!absl::StartsWith(prefix, key_prefix())) return Strange();
      // What is hidden is no part of a data set.
      const bool is_hidden = absl::StartsWith(prefix.substr(key_prefix().size()), ".");
      if (!is_hidden) waiting_.push_back(std::move(prefix));
    }
    return Take(*page);
  }

  void AskFor(std::string prefix, const std::string& token) {
    ListQuery query{absl::StrCat(folder_, prefix.substr(key_prefix().size())), false, "", token};
    List(query, [this, prefix = std::move(prefix)](absl::StatusOr<Listing> page) {
      BULKHEAD_RETURN_IF_ERROR(page.status());
      if (!page->next_token.empty()) AskFor(prefix, page->next_token);
      return Take(*page);
    });
  }

  absl::Status Take(const Listing& page) {
    for (const ListedObject& object : page.objects) {
      absl::string_view name = object.key;
      if (!absl::StartsWith(name, key_prefix())) return Strange();
      name.remove_prefix(key_prefix().size());
      if (name.empty()) continue;  // what some tools make for a folder
      BULKHEAD_RETURN_IF_ERROR(Add(EntryOf(name, object)));
    }
    return absl::OkStatus();
  }

  absl::Status Strange() const {
    return MakeError(
        absl::StatusCode::kUnavailable, reason::kFileUnreadable,
        absl::StrCat(ShownUrl(folder_), ": the store lists keys that were not asked for"),
        {{"file", ShownUrl(folder_)}});
  }

  absl::Status Empty() const override {
    return MakeError(absl::StatusCode::kNotFound, reason::kFileNotFound,
                     absl::StrCat(ShownUrl(folder_),
                                  ": there is no object whose name begins so; compare the URL"),
                     {{"file", ShownUrl(folder_)}});
  }

  // The folder in its bucket.
  absl::string_view key_prefix() const {
    const absl::string_view folder = folder_;
    return folder.substr(folder.find('/', folder.find("//") + 2) + 1);
  }

  const std::string folder_;
  std::string first_level_token_;
  bool first_level_left_ = true;
  bool first_level_runs_ = false;
  std::deque<std::string> waiting_;  // prefixes
};

// The objects of a file of URLs.
class ObjectLister::UrlsTask final : public Task {
 public:
  UrlsTask(ObjectLister& lister, const internal::v1::ListObjects& message, int fd)
      : Task(lister, message.id(), ""),
        roots_(message.roots().begin(), message.roots().end()),
        fd_(fd) {}

 private:
  // URLs [begin, end), in order, of which those before `next` were looked for. Each is in the
  // folder `folder`.
  struct Walk {
    std::string folder;
    size_t next = 0;
    size_t end = 0;
  };

  absl::Status Begin() override {
    BULKHEAD_ASSIGN_OR_RETURN(const std::string prefix, ReadPrefix(fd_, IndexHeader::kBytes));
    BULKHEAD_ASSIGN_OR_RETURN(const IndexHeader header, IndexHeader::Parse(prefix));
    BULKHEAD_ASSIGN_OR_RETURN(const uint64_t size, FileSize(fd_));
    if (size > kMostUrlBytes || header.record_count > ObjectTable::kMostObjects) return TooMany("");
    BULKHEAD_ASSIGN_OR_RETURN(file_, MemoryMap::MapReadOnly(fd_, size));
    const absl::string_view text(reinterpret_cast<const char*>(file_.data()), size);
    uint64_t start = IndexHeader::kBytes;
    for (uint64_t i = 0; i < header.record_count; ++i) {
      const size_t end = text.find('\n', start);
      if (end == text.npos) return absl::DataLossError("the list of URLs is damaged");
      starts_.push_back(static_cast<uint32_t>(start));
      start = end + 1;
    }
    const auto less = [&](uint32_t a, uint32_t b) { return UrlFrom(a) < UrlFrom(b); };
    const auto same = [&](uint32_t a, uint32_t b) { return UrlFrom(a) == UrlFrom(b); };
    if (!std::is_sorted(starts_.begin(), starts_.end(), less)) {
      std::sort(starts_.begin(), starts_.end(), less);
    }
    starts_.erase(std::unique(starts_.begin(), starts_.end(), same), starts_.end());
    for (size_t i = 0; i < starts_.size(); ++i) {
      const absl::string_view url = UrlAt(i);
      BULKHEAD_RETURN_IF_ERROR(ParseObjectUrl(url).status());
      const bool is_allowed =
          roots_.empty() || std::any_of(roots_.begin(), roots_.end(), [&](const std::string& root) {
            return IsBelowUrl(url, root);
          });
      if (!is_allowed) return UrlNotAllowed(url);
    }
    return absl::OkStatus();
  }

  bool Ask() override {
    while (running() < kQuestions) {
      if (!single_.empty()) {
        const absl::string_view url = UrlAt(single_.front());
        single_.pop_front();
        Question(url, url);
      } else if (next_ < starts_.size() && running() < kListings) {
        Walk walk = NextWalk();
        if (walk.folder.empty()) {
          for (size_t i = walk.next; i < walk.end; ++i) single_.push_back(i);
        } else {
          const std::string after = JustBefore(KeyAt(walk.next));
          Go(std::move(walk), after);
        }
      } else {
        break;
      }
    }
    return next_ < starts_.size() || !single_.empty();
  }

  // The URLs of one folder from `next_` on, as many as go together. Without a folder: each is
  // asked for.
  Walk NextWalk() {
    const absl::string_view first = UrlAt(next_);
    const absl::string_view folder = first.substr(0, first.rfind('/') + 1);
    Walk walk{"", next_, next_};
    while (walk.end < starts_.size() && walk.end - walk.next < kManyUrls &&
           UrlAt(walk.end).substr(0, UrlAt(walk.end).rfind('/') + 1) == folder) {
      ++walk.end;
    }
    next_ = walk.end;
    const auto url = ParseObjectUrl(first);
    if (url.ok() && url->is_bucket() && walk.end - walk.next > kFewUrls) {
      walk.folder = std::string(folder);
    }
    return walk;
  }

  void Go(Walk walk, const std::string& after) {
    const ListQuery query{walk.folder, /*one_level=*/true, after, ""};
    List(query, [this, walk = std::move(walk)](absl::StatusOr<Listing> page) mutable {
      return Take(std::move(walk), page);
    });
  }

  absl::Status Take(Walk walk, const absl::StatusOr<Listing>& page) {
    if (absl::IsPermissionDenied(page.status())) {  // who may not list may perhaps read
      for (; walk.next < walk.end; ++walk.next) single_.push_back(walk.next);
      return absl::OkStatus();
    }
    BULKHEAD_RETURN_IF_ERROR(page.status());
    std::string last;
    for (const ListedObject& object : page->objects) {
      last = std::max(last, object.key);
      while (walk.next < walk.end && KeyAt(walk.next) < object.key) single_.push_back(walk.next++);
      if (walk.next < walk.end && KeyAt(walk.next) == object.key) {
        BULKHEAD_RETURN_IF_ERROR(Add(EntryOf(UrlAt(walk.next++), object)));
      }
    }
    // Behind the keys that a prefix stands for.
    for (const std::string& prefix : page->prefixes) last = std::max(last, prefix + "~~~~");
    if (page->next_token.empty() || last.empty()) last = "\xff";
    // Perhaps the store's listing is in another order.
    while (walk.next < walk.end && KeyAt(walk.next) <= last) single_.push_back(walk.next++);
    if (walk.next == walk.end) return absl::OkStatus();
    const std::string after = std::max(last, JustBefore(KeyAt(walk.next)));
    Go(std::move(walk), after);
    return absl::OkStatus();
  }

  absl::string_view UrlFrom(uint32_t start) const {
    const absl::string_view rest =
        absl::string_view(reinterpret_cast<const char*>(file_.data()), file_.size()).substr(start);
    return rest.substr(0, rest.find('\n'));
  }
  absl::string_view UrlAt(size_t i) const { return UrlFrom(starts_[i]); }
  // The key of an object of a bucket.
  absl::string_view KeyAt(size_t i) const {
    const absl::string_view url = UrlAt(i);
    return url.substr(url.find('/', url.find("//") + 2) + 1);
  }

  const std::vector<std::string> roots_;
  const int fd_;  // of the caller, for Begin
  MemoryMap file_;
  std::deque<uint32_t> starts_;  // of the URLs
  std::deque<size_t> single_;    // to be asked for each
  size_t next_ = 0;
};

ObjectLister::ObjectLister(ObjectStore& store, std::string folder, Progress progress, Done done)
    : store_(store),
      folder_(std::move(folder)),
      progress_(std::move(progress)),
      done_(std::move(done)) {}

ObjectLister::~ObjectLister() {
  for (const auto& [id, task] : tasks_) task->Drop();
}

void ObjectLister::List(const internal::v1::ListObjects& message, int urls_fd) {
  std::shared_ptr<Task> task;
  if (message.folder().empty()) {
    task = std::make_shared<UrlsTask>(*this, message, urls_fd);
  } else {
    task = std::make_shared<FolderTask>(*this, message.id(), message.folder());
  }
  tasks_[message.id()] = task;
  task->Start();
}

void ObjectLister::Release(uint64_t id) {
  const auto found = tasks_.find(id);
  if (found == tasks_.end()) return;
  found->second->Drop();
  tasks_.erase(found);
}

void ObjectLister::Report() const {
  for (const auto& [id, task] : tasks_) task->Report();
}

}  // namespace bulkhead
