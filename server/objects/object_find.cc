#include "server/objects/object_find.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/objects/answer_head.h"
#include "server/objects/key_pattern.h"
#include "server/objects/store_xml.h"

namespace bulkhead {
namespace {

constexpr size_t kPageObjects = 1000;  // as many as stores give at once
constexpr size_t kMostPages = 10'000;
// One page of objects whose keys have 1024 bytes, each written as "%XX".
constexpr size_t kMostPageBytes = size_t{8} << 20;

absl::StatusOr<ObjectInfo> InfoOf(const std::string& url, const HttpHead& head) {
  const std::optional<uint64_t> size = WholeSize(head);
  if (!size.has_value()) {
    return Unreadable(absl::StatusCode::kFailedPrecondition, ShownUrl(url),
                      "the server does not say how large it is (Content-Length)");
  }
  return ObjectInfo{url, *size, head.Header("etag"), ModifiedNanos(head)};
}

// A GET of the first byte: its errors have a body that says why, which HEAD has not, and a URL that
// was signed for GET allows no HEAD.
void FindByGet(CallRunner* calls, const std::string& url, const ObjectUrl& target,
               ObjectStore::OnFound done) {
  const auto head = std::make_shared<HttpHead>();
  ObjectCall call;
  call.shown = ShownUrl(url);
  call.operation = {"GET", target, {}, {{"Range", "bytes=0-0"}}};
  call.check_head = [head](const HttpHead& answer) {
    *head = answer;
    // The body, which may be all of the object, is not wanted.
    return absl::CancelledError("");
  };
  call.done = [url, head, done = std::move(done)](const absl::StatusOr<HttpResponse>& response) {
    if (head->code == 0) return done(response.status());
    const absl::StatusOr<ObjectInfo> info = InfoOf(url, *head);
    if (!info.ok()) return done(info.status());
    done(std::vector<ObjectInfo>{*info});
  };
  calls->Start(std::move(call));
}

// Asks for one page of the keys of the bucket `target`.
void AskForKeys(CallRunner* calls, const ObjectUrl& target, std::string shown, NamedValues query,
                const std::string& token, ObjectStore::OnListed done) {
  ObjectCall call;
  call.shown = std::move(shown);
  call.operation.target = target;
  call.operation.query = {
      {"list-type", "2"}, {"max-keys", absl::StrCat(kPageObjects)}, {"encoding-type", "url"}};
  for (auto& value : query) call.operation.query.push_back(std::move(value));
  if (!token.empty()) call.operation.query.emplace_back("continuation-token", token);
  call.most_body_bytes = kMostPageBytes;
  const auto page = std::make_shared<Listing>();
  call.check = [page](const HttpResponse& response) -> absl::Status {
    absl::StatusOr<Listing> parsed = ParseListing(response.body);
    if (!parsed.ok()) {
      return absl::UnavailableError(
          absl::StrCat("the store answers with ", parsed.status().message()));
    }
    *page = *std::move(parsed);
    return absl::OkStatus();
  };
  call.done = [done = std::move(done), page](const absl::StatusOr<HttpResponse>& response) {
    if (!response.ok()) return done(response.status());
    done(std::move(*page));
  };
  calls->Start(std::move(call));
}

// A listing, page after page.
class Matching : public std::enable_shared_from_this<Matching> {
 public:
  Matching(CallRunner* calls, const std::string& pattern, const ObjectUrl& target, size_t most,
           ObjectStore::OnFound done)
      : calls_(calls),
        shown_(ShownUrl(pattern)),
        bucket_(pattern.substr(0, pattern.size() - target.key.size())),
        pattern_(target.key),
        target_(target),
        most_(most),
        done_(std::move(done)) {
    target_.key.clear();
  }

  void AskForPage(const std::string& token) {
    NamedValues query = {{"prefix", pattern_.prefix()}};
    if (pattern_.is_of_one_folder()) query.emplace_back("delimiter", "/");
    AskForKeys(calls_, target_, shown_, std::move(query), token,
               [self = shared_from_this()](absl::StatusOr<Listing> page) {
                 if (!page.ok()) return self->done_(page.status());
                 self->Take(*std::move(page));
               });
  }

 private:
  void Take(Listing page) {
    ++pages_;
    for (ListedObject& object : page.objects) {
      if (!pattern_.Matches(object.key)) continue;
      found_.push_back({absl::StrCat(bucket_, object.key), object.size_bytes,
                        std::move(object.etag), object.mtime_ns});
      if (const absl::Status valid = ParseObjectUrl(found_.back().url).status(); !valid.ok()) {
        return done_(valid);
      }
    }
    if (found_.size() > most_) return done_(TooMany("match", most_));
    if (pages_ >= kMostPages && !page.next_token.empty()) {
      return done_(TooMany("begin like it", kMostPages * kPageObjects));
    }
    if (!page.next_token.empty()) return AskForPage(page.next_token);
    std::ranges::sort(found_, {}, &ObjectInfo::url);
    done_(std::move(found_));
  }

  absl::Status TooMany(absl::string_view how, size_t limit) const {
    return MakeError(absl::StatusCode::kResourceExhausted, reason::kSpecInvalid,
                     absl::StrCat(shown_, ": more than ", limit, " objects ", how,
                                  "; write a pattern with a longer beginning"));
  }

  CallRunner* const calls_;
  const std::string shown_;
  const std::string bucket_;  // "s3://bucket/"
  const KeyPattern pattern_;
  ObjectUrl target_;
  const size_t most_;
  const ObjectStore::OnFound done_;
  size_t pages_ = 0;
  std::vector<ObjectInfo> found_;
};

}  // namespace

void ListPage(CallRunner* calls, const ListQuery& query, const ObjectUrl& target,
              ObjectStore::OnListed done) {
  NamedValues values = {{"prefix", target.key}};
  if (query.one_level) values.emplace_back("delimiter", "/");
  if (!query.start_after.empty()) values.emplace_back("start-after", query.start_after);
  ObjectUrl bucket = target;
  bucket.key.clear();
  AskForKeys(calls, bucket, ShownUrl(query.folder), std::move(values), query.token,
             std::move(done));
}

void FindOne(CallRunner* calls, const std::string& url, const ObjectUrl& target,
             ObjectStore::OnFound done) {
  if (!target.query.empty()) return FindByGet(calls, url, target, std::move(done));
  ObjectCall call;
  call.shown = ShownUrl(url);
  call.operation = {"HEAD", target, {}, {}};
  call.done = [calls, url, target, done](const absl::StatusOr<HttpResponse>& response) {
    if (response.ok()) {
      const absl::StatusOr<ObjectInfo> info = InfoOf(url, response->head);
      if (info.ok()) return done(std::vector<ObjectInfo>{*info});
    } else if (response.status().code() == absl::StatusCode::kUnavailable) {
      return done(response.status());
    }
    FindByGet(calls, url, target, done);
  };
  calls->Start(std::move(call));
}

void FindMatches(CallRunner* calls, const std::string& pattern, const ObjectUrl& target,
                 size_t most, ObjectStore::OnFound done) {
  std::make_shared<Matching>(calls, pattern, target, most, std::move(done))->AskForPage("");
}

}  // namespace bulkhead
