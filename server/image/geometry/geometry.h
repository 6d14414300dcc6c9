#pragma once

#include <optional>
#include <vector>

#include "server/image/geometry/displacement.h"
#include "server/image/geometry/point.h"
#include "server/image/geometry/warp.h"
#include "server/image/image.h"
#include "server/image/resize/legacy_resize.h"

namespace bulkhead {

// How one step moved an image's pixels, so that boxes, points and masks can follow. A plain value.
struct Geometry {
  enum class Kind {
    kPlace,        // the image moved by whole pixels into another canvas: cut, padded, or both
    kResize,       // the whole image stretched over the whole canvas
    kFlipColumns,  // left and right changed places
    kFlipRows,     // top and bottom
    kWarp,         // `map` gives the source of each point; the size stays
    kDisplace,     // `displacement` gives it
  };
  Kind kind = Kind::kPlace;
  ImageSize before;
  ImageSize after;
  // kPlace: where the image's upper left corner lies in the new canvas; negative where it is cut.
  int top = 0;
  int left = 0;
  // kResize: where old TensorFlow sampled; none: half-pixel centres.
  std::optional<LegacyCenters> centers;
  WarpMap map;  // kWarp
  // kDisplace. Its nodes exist until boxes, points and masks have been moved.
  Displacement displacement;

  static Geometry Crop(ImageSize before, const Rect& rect);
  static Geometry Place(ImageSize before, ImageSize after, int top, int left);
  static Geometry Resize(ImageSize before, ImageSize after,
                         std::optional<LegacyCenters> centers = std::nullopt);
  static Geometry FlipColumns(ImageSize size);
  static Geometry FlipRows(ImageSize size);
  static Geometry Warp(ImageSize size, const WarpMap& map);
  static Geometry Displace(ImageSize size, const Displacement& displacement);

  // Whether pixels may have left the canvas.
  bool cuts() const {
    return kind == Kind::kPlace || kind == Kind::kWarp || kind == Kind::kDisplace;
  }
};

// The steps that one running stage took, in their order.
using GeometryTrail = std::vector<Geometry>;

// Moves points as `geometry` moved the pixels. Resizing multiplies by the ratio of the sides,
// whatever the centres.
class PointMover {
 public:
  explicit PointMover(const Geometry& geometry);

  // Where `point` is now; near the horizon of a perspective very far away, but finite for finite
  // points.
  ImagePoint Move(ImagePoint point) const;

  // The smallest upright rectangle around the moved rectangle, as its upper left and lower right
  // corner: around its corners, and for kDisplace around points of its edges, as far apart as the
  // nodes, or 64 of each. The whole canvas when a perspective takes the corners to both sides of
  // its horizon.
  struct Hull {
    ImagePoint low;
    ImagePoint high;
  };
  Hull MoveRect(ImagePoint low, ImagePoint high) const;

 private:
  struct Projected {
    double x;
    double y;
    double w;
  };
  Projected Project(ImagePoint point) const;
  Hull MoveByPerspective(ImagePoint low, ImagePoint high) const;
  Hull MoveOutline(ImagePoint low, ImagePoint high) const;

  const Geometry& geometry_;
  double scale_x_ = 1;
  double scale_y_ = 1;
  std::array<double, 9> forward_{};  // kWarp: from input to result
};

}  // namespace bulkhead
