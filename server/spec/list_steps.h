#pragma once

#include <string>
#include <vector>

#include "bulkhead/v1/pipeline.pb.h"
#include "server/spec/image_lists.h"
#include "server/spec/source_chain.h"

namespace bulkhead {

// Makes the steps of a chain of its stages, in order. A stage that works on a list of images
// becomes a step for each image; neighbouring stages of one list are put image after image, so that
// each image passes them in one go: [decode 0, crop 0, decode 1, crop 1]. A stage that joins images
// (`inputs`) gets their names in place of the list's. Refers to its arguments.
class ListSteps {
 public:
  // `lists`: those that exist before the first stage; becomes those after the last.
  ListSteps(ImageLists& lists, std::vector<SourceChain::Step>& steps)
      : lists_(lists), steps_(steps) {}

  void Add(const v1::Stage& stage, std::string path, std::string key_path);
  // Adds the steps of the stages that wait for others of their list.
  void Flush();

 private:
  // The stage with the images' names in place of those of lists that it joins; null if it joins
  // none.
  std::shared_ptr<const v1::Stage> Joining(const v1::Stage& stage);

  ImageLists& lists_;
  std::vector<SourceChain::Step>& steps_;
  std::vector<SourceChain::Step> waiting_;  // stages of one list, without an image
  std::string list_;                        // of those that wait
};

}  // namespace bulkhead
