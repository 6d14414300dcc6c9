#include "server/fetch/object_lister.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/error.h"
#include "server/base/index_header.h"
#include "server/blocks/object_table.h"
#include "server/os/files/fd.h"
#include "tests/objects/fake_environment.h"
#include "tests/objects/toy_server.h"
#include "tests/support/test_dir.h"

namespace bulkhead {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAreArray;

constexpr char kNoEnd[] = R"([{"do": "same_page", "stays": true}])";

// One server for all tests: they use buckets of their own. Its pages have two keys.
class ObjectListerTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = new ToyServer; }
  static void TearDownTestSuite() { delete server_; }

  ObjectListerTest() {
    bucket_ = testing::UnitTest::GetInstance()->current_test_info()->name();
    environment_.Set("AWS_ENDPOINT_URL", server_->url());
    environment_.Set("AWS_ACCESS_KEY_ID", "AKID");
    environment_.Set("AWS_SECRET_ACCESS_KEY", "hunter2");
    environment_.Set("AWS_EC2_METADATA_DISABLED", "true");
    StoreConfig config = *StoreConfig::FromEnvironment(environment_.get());
    config.limits.patience = absl::ZeroDuration();
    config.limits.first_backoff = absl::Milliseconds(1);
    store_ = *ObjectStore::Create(std::move(config), environment_.get());
    lister_.emplace(
        *store_, folder_, [](uint64_t, uint64_t) {},
        [this](uint64_t, absl::StatusOr<std::string> key, uint64_t) { done_ = std::move(key); });
  }
  void Put(const std::vector<std::string>& keys) {
    for (const std::string& key : keys) server_->Put(absl::StrCat("/", bucket_, "/", key), key);
  }
  void Fail(const std::string& faults) { server_->Fail(faults, bucket_); }
  std::string Url(const std::string& key) const { return absl::StrCat("s3://", bucket_, "/", key); }

  // The names in the table that `list` leads to.
  absl::StatusOr<std::vector<std::string>> List(const internal::v1::ListObjects& list,
                                                int urls_fd = -1) {
    done_.reset();
    lister_->List(list, urls_fd);
    while (!done_.has_value()) store_->Poll(absl::Seconds(10), -1);
    if (!done_->ok()) return done_->status();
    const auto table = ObjectTable::Open(absl::StrCat(folder_, "/", **done_)).value();
    std::vector<std::string> names;
    for (uint64_t i = 0; i < table->count(); ++i) {
      const ObjectTable::Entry entry = table->Get(i).value();
      EXPECT_TRUE(absl::EndsWith(table->UrlOf(entry), entry.name));
      names.push_back(entry.name);
    }
    return names;
  }

  absl::StatusOr<std::vector<std::string>> ListFolder(const std::string& key) {
    internal::v1::ListObjects list;
    list.set_folder(Url(key));
    return List(list);
  }

  // A file of URLs, as a worker writes it.
  UniqueFd WriteUrls(const std::vector<std::string>& urls, uint64_t count) const {
    IndexHeader header;
    header.record_count = count;
    const auto bytes = header.Serialize();
    std::ofstream file(folder_ + "/urls", std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    for (const std::string& url : urls) file << url << "\n";
    file.close();
    return UniqueFd(open((folder_ + "/urls").c_str(), O_RDWR | O_CLOEXEC));
  }
  absl::StatusOr<std::vector<std::string>> ListUrls(const std::vector<std::string>& urls,
                                                    const std::vector<std::string>& roots = {}) {
    internal::v1::ListObjects list;
    for (const std::string& root : roots) list.add_roots(root);
    const UniqueFd fd = WriteUrls(urls, urls.size());
    return List(list, fd.get());
  }

  // Requests for this test's bucket that begin so.
  size_t Count(const std::string& method) {
    size_t count = 0;
    for (const std::string& line : server_->Log()) {
      count += absl::StartsWith(line, absl::StrCat(method, " /", bucket_)) ? 1 : 0;
    }
    return count;
  }

  static ToyServer* server_;
  std::string bucket_;
  const TestDir dir_;
  const std::string folder_ = dir_.path().string();
  FakeEnvironment environment_;
  std::unique_ptr<ObjectStore> store_;
  std::optional<ObjectLister> lister_;
  std::optional<absl::StatusOr<std::string>> done_;
};

ToyServer* ObjectListerTest::server_ = nullptr;

std::vector<std::string> Numbered(const std::string& beginning, int count) {
  std::vector<std::string> keys;
  for (int i = 0; i < count; ++i) keys.push_back(absl::StrCat(beginning, 100 + i, ".jpg"));
  return keys;
}

TEST_F(ObjectListerTest, ListsAllThatLiesBelowAFolder) {
  const std::vector<std::string> keys = {"a/1", "a/2", "a/b/c/3", "a/b/4", "a b/ö+5",
                                         "6",   "c/7", "d/8",     "e/9"};
  for (const std::string& key : keys) Put({"top/" + key});
  Put({"topmost/x", "other"});
  EXPECT_THAT(*ListFolder("top/"), UnorderedElementsAreArray(keys));
  EXPECT_EQ(ListFolder("")->size(), keys.size() + 2);
  EXPECT_TRUE(absl::IsNotFound(ListFolder("none/").status())) << ListFolder("none/").status();
}

TEST_F(ObjectListerTest, AFolderWhoseListingHasNoEndIsAnError) {
  Put({"top/a/1", "top/a/2", "top/a/3", "top/b/1", "top/c/1"});
  for (const char* folder : {"top/", "top/a/"}) {
    Fail(kNoEnd);
    const absl::Status status = ListFolder(folder).status();
    EXPECT_EQ(GetErrorInfo(status)->reason, reason::kFileUnreadable);
    EXPECT_EQ(status.message(),
              absl::StrCat(Url(folder),
                           ": the store's listing has no end: it gives the same page again; tell "
                           "who runs the store, or write an image_list"));
  }
  Fail(R"([{"do": "empty_page", "stays": true}])");
  EXPECT_THAT(ListFolder("top/").status().message(), HasSubstr("one empty page after another"));
}

TEST_F(ObjectListerTest, EmptyPagesInBetweenAreNoEnd) {
  Put({"top/1", "top/2", "top/3"});
  Fail(R"([{"do": "empty_page"}, {"do": "empty_page"}])");
  EXPECT_EQ(ListFolder("top/")->size(), 3u);
}

TEST_F(ObjectListerTest, FindsTheUrlsThatExist) {
  std::vector<std::string> keys = Numbered("x/", 12);
  Put(keys);
  Put({"y/1.jpg", "y/[2].jpg"});
  std::vector<std::string> wanted;
  for (const std::string& key : keys) wanted.push_back(Url(key));
  wanted.push_back(Url("y/[2].jpg"));
  std::vector<std::string> urls = wanted;
  std::reverse(urls.begin(), urls.end());
  urls.insert(urls.end(), {Url("y/none.jpg"), Url("x/105a.jpg"), Url(keys[3]), Url("x/999.jpg")});
  EXPECT_THAT(*ListUrls(urls), UnorderedElementsAreArray(wanted));
  EXPECT_THAT(*ListUrls({Url("y/none.jpg")}), IsEmpty());
}

TEST_F(ObjectListerTest, AStoreThatTakesNoStartAfterIsAskedForEachUrl) {
  const std::vector<std::string> keys = Numbered("x/", 40);
  Put(keys);
  std::vector<std::string> urls;
  for (const std::string& key : keys) urls.push_back(Url(key));
  for (const char* fault : {"no_start_after", "same_page"}) {
    Fail(absl::StrCat(R"([{"stays": true, "do": ")", fault, "\"}]"));
    const size_t before = Count("GET");
    EXPECT_THAT(*ListUrls(urls), UnorderedElementsAreArray(urls));
    EXPECT_EQ(Count("GET") - before, 2u) << "listings";
  }
  // Keys that begin with the highest bytes.
  Fail("[]");
  std::vector<std::string> high = Numbered("z/\xf4\x8f\xbf\xbf", 20);
  Put({high[0], high[1], high[2]});
  for (std::string& key : high) key = Url(key);
  EXPECT_THAT(*ListUrls(high), ElementsAre(high[0], high[1], high[2]));
}

TEST_F(ObjectListerTest, AsksForEachUrlWhereListingIsNotAllowed) {
  const std::vector<std::string> keys = Numbered("x/", 10);
  Put(keys);
  std::vector<std::string> urls;
  for (const std::string& key : keys) urls.push_back(Url(key));
  Fail(R"([{"status": 403, "code": "AccessDenied"}])");
  EXPECT_THAT(*ListUrls(urls), UnorderedElementsAreArray(urls));
  EXPECT_EQ(Count("HEAD"), 10u);
}

TEST_F(ObjectListerTest, NoUrlOutsideOfTheRootsIsAskedFor) {
  Put({"x/1.jpg", "y/1.jpg"});
  const absl::Status status = ListUrls({Url("x/1.jpg"), Url("y/1.jpg")}, {Url("x")}).status();
  EXPECT_EQ(GetErrorInfo(status)->reason, reason::kPathNotAllowed);
  EXPECT_THAT(status.message(), HasSubstr(Url("y/1.jpg")));
  EXPECT_EQ(Count("HEAD"), 0u);
}

TEST_F(ObjectListerTest, ADamagedFileOfUrlsIsAnError) {
  internal::v1::ListObjects list;
  for (const uint64_t count : {uint64_t{3}, uint64_t{1} << 22}) {
    const UniqueFd fd = WriteUrls({Url("1"), Url("2")}, count);
    EXPECT_TRUE(absl::IsDataLoss(List(list, fd.get()).status())) << count;
  }
  const UniqueFd fd = WriteUrls({Url("1")}, uint64_t{1} << 60);
  EXPECT_FALSE(List(list, fd.get()).ok());
  EXPECT_FALSE(ListUrls({"nonsense"}).ok());
}

}  // namespace
}  // namespace bulkhead
