// The same as fusion_test.cc over real photos: those of the folder that BULKHEAD_PHOTOS names.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "tests/pipeline/fusion_fixture.h"

namespace bulkhead {
namespace {

using namespace fusion_testing;  // NOLINT

constexpr size_t kPlaces = 1000;
// Compared at a time: they are all in memory, more than once.
constexpr size_t kFiles = 64;

// Compares `files` by all chains, as soon as there are enough of them.
void Compare(std::vector<std::string>& files, size_t enough, FusionCount& count) {
  if (files.size() < enough) return;
  for (const std::string& chain : Chains()) {
    ExpectFusedEqualsUnfused(kDecode + chain, files, count);
    if (testing::Test::HasFatalFailure()) return;
  }
  files.clear();
}

void Report(const char* what, size_t files, const FusionCount& count) {
  std::printf("%zu %s through %zu chains: %d pictures, %d refused, %lu by seek entries\n", files,
              what, Chains().size(), count.pictures, count.refused,
              static_cast<unsigned long>(count.by_seek_entries));
}

TEST(FusionPhotosTest, ChainsOfPhotosAreThoseOfTheStagesOneByOne) {
  const std::vector<std::string> photos = ReadPhotos(1);
  if (photos.empty()) GTEST_SKIP() << kNoPhotos;
  FusionCount count;
  std::vector<std::string> files;
  for (const std::string& photo : photos) {
    files.push_back(photo);
    Compare(files, kFiles, count);
    if (HasFatalFailure()) return;
  }
  Compare(files, 1, count);
  Report("photos", photos.size(), count);
  EXPECT_GT(count.pictures, count.refused);
}

TEST(FusionPhotosTest, ChainsOfDamagedPhotosAreThoseOfTheStagesOneByOne) {
  const std::vector<std::string> photos = ReadPhotos(1);
  if (photos.empty()) GTEST_SKIP() << kNoPhotos;
  FusionCount count;
  std::vector<std::string> files;
  for (size_t place = 0; place < kPlaces; ++place) {
    // One photo after the other, and another place of each: together they are spread evenly.
    // The kind of damage goes by the place, so a step that no number of photos divides moves it on.
    files.push_back(DamagedAt(photos[place % photos.size()],
                              (place + place / photos.size()) % kPlaces, kPlaces));
    Compare(files, kFiles, count);
    if (HasFatalFailure()) return;
  }
  Compare(files, 1, count);
  Report("damaged photos", kPlaces, count);
  EXPECT_GT(count.pictures, 0);
  EXPECT_GT(count.refused, 0);
}

}  // namespace
}  // namespace bulkhead
