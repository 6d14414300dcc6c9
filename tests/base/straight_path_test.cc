#include "server/base/paths/straight_path.h"

#include <gtest/gtest.h>

#include <map>

namespace bulkhead {
namespace {

TEST(StraightPathTest, LinksCountOnlyWhereOneMayLook) {
  const std::map<std::string, std::string> places = {
      {"/root", "/root"}, {"/root/deep", "/root/deep"}, {"/root/link", "/other/place"}};
  const auto place = [&](const std::string& folder) {
    const auto found = places.find(folder);
    return found == places.end() ? "" : found->second;
  };
  for (const auto& [path, straight] :
       std::map<std::string, std::string>{{"/root//a/", "/root//a/"},
                                          {"/root/./a", "/root/./a"},
                                          {"/root/deep/.././a", "/root/a"},
                                          {"/root/link/../a", "/other/a"},
                                          {"/root/../etc/name/../../root/a", "/root/a"},
                                          {"/root/none/../a", "/root/a"},
                                          {"/../a", "/a"},
                                          {"/a/..", "/"}}) {
    EXPECT_EQ(StraightPath(path, place), straight) << path;
  }
}

}  // namespace
}  // namespace bulkhead
