#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/image/image.h"
#include "tools/pack/record_supply.h"

namespace bulkhead::tools {

// The corners of a box, in pixels or as shares of the image's sides. The whole image is 0, 0,
// width, height.
struct Corners {
  double xmin = 0;
  double ymin = 0;
  double xmax = 0;
  double ymax = 0;

  friend bool operator==(const Corners&, const Corners&) = default;
};

struct ListedBox {
  Corners corners;
  int64_t label = 0;
  bool is_crowd = false;
  uint64_t place = 0;  // the line, or the number of the annotation
};

struct ListedImage {
  std::string path;    // as it is written
  uint64_t place = 0;  // the first line, or the number of the image
  int64_t id = 0;
  ImageSize size;  // as it is written; 0: it is not
  std::vector<ListedBox> boxes;
};

// Images with boxes, as an annotation file lists them.
struct Annotations {
  std::string file;       // its path
  bool is_coco = false;   // else a table of boxes
  bool relative = false;  // the corners
  std::vector<ListedImage> images;
  std::vector<std::string> classes;  // by label; none: labels are numbers without names
  std::vector<SideFile> side_files;  // what else is to be kept of the file
  std::vector<std::string> notes;    // what is to be told of it

  // "instances.json: annotations[17].bbox", "boxes.csv:18".
  std::string PlaceOf(const ListedBox& box) const;
  // "instances.json: images[3].file_name", "boxes.csv:18".
  std::string PlaceOf(const ListedImage& image) const;
};

// The side file of the classes' names, a line each, in the order of their numbers.
inline constexpr char kClassesFile[] = "classes.txt";

// Mistakes of an annotation file, of which the first are told.
class AnnotationProblems {
 public:
  // `advice`: what to do about any of them.
  explicit AnnotationProblems(std::string file, std::string advice = "")
      : file_(std::move(file)), advice_(std::move(advice)) {}
  // `text`: "boxes.csv:18: what is wrong".
  void Add(std::string text);
  bool any() const { return count_ > 0; }
  // OK without any; else LIST_INVALID with metadata `file`, a line for each of the first kMostTold,
  // and one with the advice.
  absl::Status status() const;

  static constexpr uint64_t kMostTold = 20;

 private:
  const std::string file_;
  const std::string advice_;
  uint64_t count_ = 0;
  std::vector<std::string> told_;
};

}  // namespace bulkhead::tools
